//! Files of a run: they appear whole or not at all, logs grow by whole lines, and nothing that is not a
//! plain file of the run's own is written to. A link in the place of one would lead elsewhere, and a pipe
//! would never end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::directory::RunError;

/// The end of the name under which a file is written before it is whole.
pub const PART: &str = ".ecrl-part";

/// Opens a plain file without following a link.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Not blocking: a pipe is refused below instead of waited for.
    let opened = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => not_plain("a link"),
        _ => error,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_plain("no plain file")) }
}

fn not_plain(what: &str) -> io::Error {
    io::Error::other(format!("it is {what}; expected a file of the run's own"))
}

/// Whether it is a plain file, and no link to one.
pub fn is_plain(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Opens a plain file, or one that a link leads to, for reading alone.
pub fn look(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no plain file")),
    }
}

/// Reads a plain file, or one that a link leads to.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    look(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same as text.
pub fn read_text(path: &Path) -> io::Result<String> {
    let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read(path)?).map_err(invalid)
}

/// Writes a file so that it appears whole or not at all, in place of one of the run's own at the most.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let plain = |path: &Path| match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(not_plain("a link")),
        Ok(found) if !found.is_file() => Err(not_plain("no plain file")),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    plain(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(PART);
    let part = path.with_file_name(name);
    if plain(&part)? {
        fs::remove_file(&part)?; // of a process that was killed
    }
    let written = open(&part, File::options().write(true).create_new(true)).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    });
    written.inspect_err(|_| _ = fs::remove_file(&part))
}

/// A log that grows by whole pieces, with a checksum of all of it.
#[derive(Debug)]
pub struct Log {
    file: File,
    bytes: u64,
    crc: u32,
}

impl Log {
    /// Opens a log, which is made where it is missing, to go on from a length that it had before; nothing
    /// is cut yet. Of one that has lost some since, what is left in whole lines.
    pub fn open(path: &Path, length: u64) -> Result<Self, RunError> {
        let io = |error| RunError::Io { path: path.to_owned(), error };
        let file = open(path, File::options().create(true).read(true).append(true)).map_err(io)?;
        let mut length = length;
        if file.metadata().map_err(io)?.len() < length {
            let left = read(path).map_err(io)?;
            length = left.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1) as u64;
        }
        let (mut head, mut crc) = ((&file).take(length), 0);
        let mut piece = vec![0; 1 << 16];
        loop {
            match head.read(&mut piece).map_err(io)? {
                0 => return Ok(Self { file, bytes: length, crc }),
                n => crc = crc32c::crc32c_append(crc, &piece[..n]),
            }
        }
    }

    /// Leaves out what was added since it had the length it was opened with.
    pub fn cut(&self) -> io::Result<()> {
        self.file.set_len(self.bytes)
    }

    /// Its length and its checksum.
    pub fn state(&self) -> (u64, u32) {
        (self.bytes, self.crc)
    }

    /// Waits until all of it is on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Adds a piece, whole or not at all.
    pub fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece).inspect_err(|_| _ = self.file.set_len(self.bytes))?;
        self.bytes += piece.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, piece);
        Ok(())
    }

    /// Adds a line of JSON.
    pub fn append_json(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line).expect("plain data");
        bytes.push(b'\n');
        self.append(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("ecrl-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = Folder::new("files-whole");
        let path = folder.0.join("a");
        write_whole(&path, b"first").unwrap();
        fs::write(folder.0.join("a.ecrl-part"), b"of a process that was killed").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        fs::create_dir(folder.0.join("b")).unwrap(); // a folder cannot be replaced by a file
        assert!(write_whole(&folder.0.join("b"), b"x").is_err());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[test]
    fn links_are_not_followed_and_stay() {
        let folder = Folder::new("files-links");
        let (mine, link) = (folder.0.join("mine"), folder.0.join("link"));
        fs::write(&mine, "precious").unwrap();
        std::os::unix::fs::symlink(&mine, &link).unwrap();
        let expected = "it is a link; expected a file of the run's own";
        assert_eq!(write_whole(&link, b"x").unwrap_err().to_string(), expected);
        let error = Log::open(&link, 0).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
        // Under the name that is written first, too.
        let part = folder.0.join("a.ecrl-part");
        std::os::unix::fs::symlink(&mine, &part).unwrap();
        assert_eq!(write_whole(&folder.0.join("a"), b"x").unwrap_err().to_string(), expected);
        assert!(link.is_symlink() && part.is_symlink());
        assert_eq!(fs::read(&mine).unwrap(), b"precious");
        // Reading does no harm.
        assert_eq!(read(&link).unwrap(), b"precious");
    }

    #[test]
    fn a_log_goes_on_where_it_was_and_knows_its_checksum() {
        let folder = Folder::new("files-log");
        let path = folder.0.join("log");
        let mut log = Log::open(&path, 0).unwrap();
        log.append(b"one\n").unwrap();
        let (bytes, crc) = log.state();
        log.append(b"two\n").unwrap();
        assert_eq!((bytes, crc), (4, crc32c::crc32c(b"one\n")));
        let mut again = Log::open(&path, bytes).unwrap();
        assert_eq!(again.state(), (bytes, crc));
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n", "nothing is cut yet");
        again.cut().unwrap();
        again.append_json(&2).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one\n2\n");
        assert_eq!(again.state().1, crc32c::crc32c(b"one\n2\n"));
        // A log that has lost some goes on after its last whole line.
        fs::write(&path, b"one\n2\nthr").unwrap();
        assert_eq!(Log::open(&path, 20).unwrap().state().0, 6);
    }
}
