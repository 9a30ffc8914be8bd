//! Files that appear whole or not at all, and logs that grow by whole lines.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::directory::RunError;

/// Opens a log to append to it, cut to a length that it had before.
pub fn open_log(path: &Path, length: u64) -> Result<File, RunError> {
    let io = |error| RunError::Io { path: path.to_owned(), error };
    let file = File::options().create(true).append(true).open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    if found < length {
        return Err(RunError::Shorter { path: path.to_owned(), found, expected: length });
    }
    file.set_len(length).map_err(io)?;
    Ok(file)
}

/// Adds a line to a log, whole or not at all.
pub fn append(file: &mut File, line: &impl serde::Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line).expect("plain data");
    bytes.push(b'\n');
    let before = file.metadata()?.len();
    file.write_all(&bytes).inspect_err(|_| {
        let _ = file.set_len(before);
    })
}

/// Writes a file so that it appears whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("ecrl-run-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        write_whole(&path, b"first").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        fs::create_dir(folder.join("b")).unwrap(); // a folder cannot be replaced by a file
        assert!(write_whole(&folder.join("b"), b"x").is_err());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
