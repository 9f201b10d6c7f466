//! What tells one state of a file from another without reading it.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The state of a file that can be looked at, or why it cannot. Two that differ are a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(State);

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// A rename brings another inode. What is written in place moves the time of the change, even where
    /// the writer sets the time of modification back; so do new permissions, which may let it be read.
    File { modified: Option<SystemTime>, len: u64, unique: Unique },
    /// The name is there, and what it leads to cannot be looked at: a link that leads nowhere, or no
    /// permission. Reading it says why.
    Hidden(io::ErrorKind),
    #[cfg(test)]
    Number(u64),
}

/// What a name leads to.
pub(super) enum Found {
    File(Stamp),
    /// A directory, a pipe.
    Other,
    /// The name is gone.
    Nothing,
}

impl Stamp {
    /// The state of the file that `path` leads to; none when there is no such name, or it is no file's.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match Self::at(path) {
            Found::File(stamp) => Some(stamp),
            Found::Other | Found::Nothing => None,
        }
    }

    pub(super) fn at(path: &Path) -> Found {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Found::File(Self(State::File {
                modified: metadata.modified().ok(),
                len: metadata.len(),
                unique: unique(&metadata),
            })),
            Ok(_) => Found::Other,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => {
                Found::Nothing
            }
            Err(error) => Found::File(Self(State::Hidden(error.kind()))),
        }
    }

    /// One that equals those of the same number.
    #[cfg(test)]
    pub(in crate::plugin) fn numbered(number: u64) -> Self {
        Self(State::Number(number))
    }
}

/// Device, inode, and the time of the last change of either content or metadata.
#[cfg(unix)]
type Unique = (u64, u64, i64, i64);

#[cfg(unix)]
fn unique(metadata: &Metadata) -> Unique {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
type Unique = Option<SystemTime>;

#[cfg(not(unix))]
fn unique(metadata: &Metadata) -> Unique {
    metadata.created().ok()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Waits until the file system's clock has moved on, which ticks some hundred times a second.
    fn changed(path: &Path, before: &Stamp, change: impl Fn()) -> bool {
        (0..1_000).any(|_| {
            change();
            Stamp::of(path).is_some_and(|now| now != *before)
        })
    }

    #[test]
    fn every_change_shows() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wasm");
        fs::write(&path, "one").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        let set_back = || File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();

        let before = Stamp::of(&path).unwrap();
        assert_eq!(Stamp::of(&path).unwrap(), before);
        assert!(changed(&path, &before, || {
            fs::write(&path, "two").unwrap();
            set_back();
        }));

        let before = Stamp::of(&path).unwrap();
        assert!(
            changed(&path, &before, || fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap())
        );

        let before = Stamp::of(&path).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        set_back();
        assert_ne!(Stamp::of(&path).unwrap(), before);

        fs::remove_file(&path).unwrap();
        assert_eq!(Stamp::of(&path), None);
    }
}
