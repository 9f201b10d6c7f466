//! What lies in the plugin directory.
//!
//! A directory that cannot be listed is an error and never an empty listing: the files of an empty one were
//! removed, and the built-ins come back; of one that cannot be listed nothing is known, and what is in
//! force stays.
//!
//! Only what may be a plugin's file by its name is looked at, so that other files cost a name each. Links
//! are followed: mounted configuration replaces the folder behind them.

mod names;
mod stamp;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use names::{Named, named};

pub use names::{is_name, version};
pub use stamp::Stamp;

/// Mistakes that a listing holds at most: who has more has no need of all.
const MISTAKES: usize = 32;

/// The files of plugins, with what each path leads to now.
pub type Files = BTreeMap<PathBuf, Stamp>;

/// What lies there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// `NAME.wasm`, `NAME.toml` and `NAME.wasm.sig`, and the same of candidates, `NAME.next`.
    pub files: Files,
    /// Files that look like a plugin's and are none, and why; 32 at most.
    pub mistakes: BTreeMap<OsString, &'static str>,
}

/// Lists the directory.
///
/// # Errors
/// When it cannot be listed, or not to its end.
pub fn read(directory: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name();
        let mistake = match named(&name) {
            Named::Other => continue,
            Named::Mistake(why) => why,
            Named::Version(_) => {
                let path = directory.join(&name);
                match Stamp::at(&path) {
                    stamp::Found::File(stamp) => {
                        listing.files.insert(path, stamp);
                        continue;
                    }
                    stamp::Found::Nothing => continue,
                    stamp::Found::Other => "it is no file",
                }
            }
        };
        if listing.mistakes.len() < MISTAKES {
            listing.mistakes.insert(name, mistake);
        }
    }
    Ok(listing)
}

/// Lists the files of plugins.
///
/// # Errors
/// When the directory cannot be listed, or not to its end: nothing is known of its files then, and what is
/// in force stays.
pub fn list(directory: &Path) -> io::Result<Files> {
    Ok(read(directory)?.files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(files: &Files) -> Vec<&str> {
        files.keys().filter_map(|path| path.file_name()?.to_str()).collect()
    }

    #[test]
    fn only_plugin_files_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in
            ["a.wasm", "a.toml", "a.wasm.sig", ".b.wasm", "c.wasm~", "d e.wasm", "e.next.wasm", "readme.md"]
        {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(directory.path().join("dir.wasm")).unwrap();
        let listing = read(directory.path()).unwrap();
        assert_eq!(names(&listing.files), ["a.toml", "a.wasm", "a.wasm.sig", "e.next.wasm"]);
        assert_eq!(listing.mistakes.keys().collect::<Vec<_>>(), ["d e.wasm", "dir.wasm"]);
    }

    #[test]
    fn what_cannot_be_listed_is_not_empty() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(list(&directory.path().join("gone")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(list(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn mistakes_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..100 {
            std::fs::write(directory.path().join(format!("a {number}.wasm")), "").unwrap();
        }
        assert_eq!(read(directory.path()).unwrap().mistakes.len(), MISTAKES);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_counts_as_what_it_leads_to_and_one_that_leads_nowhere_is_there_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for folder in ["..1", "..2"] {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("a.wasm"), "x").unwrap();
        }
        std::os::unix::fs::symlink("..1", at("..data")).unwrap();
        std::os::unix::fs::symlink("..data/a.wasm", at("a.wasm")).unwrap();
        let first = list(directory.path()).unwrap();
        assert_eq!(names(&first), ["a.wasm"]);

        std::os::unix::fs::symlink("..2", at("..tmp")).unwrap();
        std::fs::rename(at("..tmp"), at("..data")).unwrap();
        let second = list(directory.path()).unwrap();
        assert_eq!(names(&second), ["a.wasm"]);
        assert_ne!(first, second);

        std::fs::remove_file(at("..data")).unwrap();
        let third = list(directory.path()).unwrap();
        assert_eq!(names(&third), ["a.wasm"]);
        assert_ne!(second, third);
    }
}
