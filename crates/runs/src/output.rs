//! Files that a user asks for - a page, an export, a report: whole or not at all, and never over something
//! that this program has not written.

use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::{directory, files, read};

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// Something else is there.
    #[error("{path} is there already, and not of ecrl: choose another name", path = .0.display())]
    NotOurs(PathBuf),
    /// It would replace a file of a run.
    #[error("{path} is a run's own: choose another name", path = .0.display())]
    OfARun(PathBuf),
    /// Writing failed.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
}

/// How much of the beginning and of the end of a file tells whether it is ours.
const LOOK: u64 = 1 << 20;

/// Refuses a file that is there already, unless it is `ours` by its beginning or its end.
pub fn check(path: &Path, ours: impl Fn(&[u8]) -> bool) -> Result<(), OutputError> {
    let io = |error| OutputError::Io { path: path.to_owned(), error };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if directory::is_own_name(name) && read::is_run(folder.unwrap_or(Path::new("."))) {
        return Err(OutputError::OfARun(path.to_owned()));
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
        Ok(found) if !found.is_file() => return Err(OutputError::NotOurs(path.to_owned())),
        Ok(_) => {}
    }
    let part = |from: SeekFrom| -> io::Result<Vec<u8>> {
        let mut file = files::look(path)?;
        // A short file has no such end.
        let _ = file.seek(from);
        let mut bytes = Vec::new();
        file.take(LOOK).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let start = part(SeekFrom::Start(0)).map_err(io)?;
    let end = part(SeekFrom::End(-(LOOK as i64))).map_err(io)?;
    match start.is_empty() || ours(&start) || ours(&end) {
        true => Ok(()),
        false => Err(OutputError::NotOurs(path.to_owned())),
    }
}

/// Writes a file, in place of one of `ours` at the most.
pub fn put(path: &Path, bytes: &[u8], ours: impl Fn(&[u8]) -> bool) -> Result<(), OutputError> {
    check(path, ours)?;
    files::write_whole(path, bytes)
        .map_err(|error| OutputError::Io { path: path.to_owned(), error })
}

/// Writes a page and what belongs to it into a folder: where the page that is there is not one of `ours`,
/// or there is none, nothing of it may be there yet.
pub fn put_all(
    folder: &Path,
    page: &str,
    all: &[(String, Vec<u8>)],
    ours: impl Fn(&[u8]) -> bool,
) -> Result<(), OutputError> {
    let known = folder.join(page).exists();
    check(&folder.join(page), ours)?;
    for (name, _) in all {
        let path = folder.join(name);
        let within = path.parent().unwrap_or(folder);
        if within != folder && within.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            return Err(OutputError::NotOurs(within.to_owned()));
        }
        if !known && name != page {
            check(&path, |_| false)?;
        }
    }
    for (name, bytes) in all {
        let path = folder.join(name);
        let io = |error| OutputError::Io { path: path.clone(), error };
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(io)?;
        files::write_whole(&path, bytes).map_err(io)?;
    }
    Ok(())
}

/// Where a file is written by another program before it is whole.
pub fn part(path: &Path) -> Result<PathBuf, OutputError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(files::PART);
    let part = path.with_file_name(name);
    match part.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(OutputError::NotOurs(part)),
        _ => Ok(part),
    }
}

/// Whether bytes hold a text.
pub fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_is_replaced() {
        let folder = std::env::temp_dir().join(format!("ecrl-output-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let ours = |bytes: &[u8]| holds(bytes, "made by ecrl");
        let path = folder.join("a");
        put(&path, b"made by ecrl, 1", ours).unwrap();
        // By its end, too.
        let long = [vec![b'x'; 2 << 20], b"made by ecrl".to_vec()].concat();
        put(&path, &long, ours).unwrap();
        put(&path, b"mine", ours).unwrap();
        let error = put(&path, b"x", ours).unwrap_err().to_string();
        assert!(
            error.ends_with("is there already, and not of ecrl: choose another name"),
            "{error}"
        );
        let link = folder.join("link");
        std::os::unix::fs::symlink(folder.join("nowhere"), &link).unwrap();
        assert!(put(&link, b"x", ours).is_err() && !folder.join("nowhere").exists());
        let all =
            |text: &str| vec![("page".to_owned(), text.into()), ("in/b".to_owned(), text.into())];
        put_all(&folder, "page", &all("made by ecrl"), ours).unwrap();
        put_all(&folder, "page", &all("made by ecrl, again"), ours).unwrap();
        assert_eq!(fs::read(folder.join("in/b")).unwrap(), b"made by ecrl, again");
        fs::remove_file(folder.join("page")).unwrap();
        let error = put_all(&folder, "page", &all("made by ecrl"), ours).unwrap_err();
        assert!(matches!(error, OutputError::NotOurs(path) if path.ends_with("in/b")));
        assert!(!folder.join("page").exists());
        fs::write(folder.join("config.toml"), "task='a'\nalgorithm='b'\nsteps=1\nseed=0").unwrap();
        assert!(matches!(
            put(&folder.join("policy.safetensors"), b"x", |_| true),
            Err(OutputError::OfARun(_))
        ));
        fs::remove_dir_all(&folder).unwrap();
    }
}
