//! Compiled code on disk, for the next start.
//!
//! Whoever can write here can run code as this user, so a folder or file is used only when it is this user's
//! alone: a real folder of mode 0700, regular files of mode 0600 with one name, none reached by a symbolic link. What is
//! not is left alone with a warning, and compiled anew. Files appear whole, by renaming; the longest unused
//! go when all together are too large. Everything here may be deleted at any time.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::OFlags;

use super::sealed::Sealed;

/// Bytes of all files together. A Python guest has 33 MB.
const MAX_BYTES: u64 = 1 << 30;
/// What others may not have of it.
const OTHERS: u32 = 0o077;

/// A folder of compiled code.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    max_bytes: u64,
    /// For names of files that are being written.
    parts: AtomicU64,
}

impl Cache {
    /// In this folder, which is made when something is put there.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, max_bytes: MAX_BYTES, parts: AtomicU64::new(0) }
    }

    /// What was put there under this key.
    pub(super) fn get(&self, key: &str) -> Option<Sealed> {
        match self.read(key) {
            Ok(bytes) => Some(Sealed::from_bytes(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!("the cache of compiled plugins is not used, and {key} compiled anew: {error}");
                None
            }
        }
    }

    /// Keeps code under this key. When that fails, the next start compiles again.
    pub(super) fn put(&self, key: &str, code: &Sealed) {
        if let Err(error) = self.write(key, code.as_bytes()) {
            tracing::warn!("compiled code of a plugin cannot be kept for the next start: {error}");
        }
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.cwasm"))
    }

    fn read(&self, key: &str) -> std::io::Result<Vec<u8>> {
        self.folder_is_ours()?;
        let path = self.file(key);
        // Through no link, and what is looked at is what is read.
        let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
            .map_err(|error| at(&path, error.kind(), error))?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || !is_ours(&metadata) || metadata.nlink() != 1 {
            return Err(at(
                &path,
                ErrorKind::PermissionDenied,
                "is not a file of this user alone (mode 0600)",
            ));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        file.read_to_end(&mut bytes)?;
        // Used now: the longest unused go first.
        let _ = file.set_modified(SystemTime::now());
        Ok(bytes)
    }

    fn write(&self, key: &str, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(parent) = self.folder.parent() {
            fs::create_dir_all(parent).map_err(|error| at(parent, error.kind(), error))?;
        }
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(at(&self.folder, error.kind(), error));
            }
            _ => self.folder_is_ours()?,
        }
        let part = self.parts.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!(".{}-{part}.part", std::process::id()));
        let written = written(&part, bytes).and_then(|()| fs::rename(&part, self.file(key)));
        if let Err(error) = written {
            let _ = fs::remove_file(&part);
            return Err(at(&part, error.kind(), error));
        }
        self.trim()
    }

    fn folder_is_ours(&self) -> std::io::Result<()> {
        let metadata = fs::symlink_metadata(&self.folder)?;
        if metadata.is_dir() && is_ours(&metadata) {
            return Ok(());
        }
        Err(at(&self.folder, ErrorKind::PermissionDenied, "is not a folder of this user alone (mode 0700)"))
    }

    /// Removes what was not used for longest, until the rest fits.
    fn trim(&self) -> std::io::Result<()> {
        let entries = fs::read_dir(&self.folder)?.flatten();
        let files = entries.filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
        let mut files: Vec<_> = files.filter(|(_, metadata)| metadata.is_file()).collect();
        files.sort_by_key(|(_, metadata)| metadata.modified().ok());
        let mut total: u64 = files.iter().map(|(_, metadata)| metadata.len()).sum();
        for (path, metadata) in files {
            if total <= self.max_bytes {
                break;
            }
            fs::remove_file(path)?;
            total -= metadata.len();
        }
        Ok(())
    }
}

fn written(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & OTHERS == 0
}

fn at(path: &Path, kind: ErrorKind, problem: impl std::fmt::Display) -> std::io::Error {
    std::io::Error::new(kind, format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn sealed(bytes: &[u8]) -> Sealed {
        Sealed::from_bytes(bytes.to_vec())
    }

    #[test]
    fn what_is_put_there_is_found_again_and_is_ours_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state/cache");
        let cache = Cache::new(folder.clone());
        assert_eq!(cache.get("a"), None);
        assert!(!folder.exists(), "it is made when something is kept");
        cache.put("a", &sealed(b"code"));
        assert_eq!(cache.get("a"), Some(sealed(b"code")));
        cache.put("a", &sealed(b"newer"));
        assert_eq!(cache.get("a"), Some(sealed(b"newer")));
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&cache.file("a"))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no part is left");
    }

    #[test]
    fn what_others_may_have_made_is_not_used() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cache");
        let cache = Cache::new(folder.clone());
        cache.put("a", &sealed(b"code"));
        let file = cache.file("a");
        let allow = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();

        allow(&file, 0o620);
        assert_eq!(cache.get("a"), None, "a file that a group can write");
        allow(&file, 0o600);
        allow(&folder, 0o755);
        assert_eq!(cache.get("a"), None, "a folder that others can read");
        cache.put("b", &sealed(b"code"));
        assert!(!cache.file("b").exists());
        allow(&folder, 0o700);
        assert_eq!(cache.get("a"), Some(sealed(b"code")));

        let elsewhere = place.path().join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(cache.get("a"), None, "a symbolic link");
        cache.put("a", &sealed(b"anew"));
        assert_eq!(cache.get("a"), Some(sealed(b"anew")), "the link is replaced, not followed");
        assert_eq!(fs::read(&elsewhere).unwrap(), b"code");
        fs::hard_link(&file, place.path().join("twice")).unwrap();
        assert_eq!(cache.get("a"), None, "a file of two names");

        let link = place.path().join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(Cache::new(link).get("a"), None, "a folder behind a link");
    }

    #[test]
    fn the_longest_unused_go_when_it_is_full() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cache");
        let cache = Cache { max_bytes: 25, ..Cache::new(folder.clone()) };
        let aged = |key: &str, seconds: u64| {
            let file = OpenOptions::new().append(true).open(cache.file(key)).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(seconds)).unwrap();
        };
        cache.put("a", &sealed(&[0; 10]));
        cache.put("b", &sealed(&[0; 10]));
        aged("a", 200);
        aged("b", 100);
        assert!(cache.get("a").is_some(), "which makes it the one that was used last");
        cache.put("c", &sealed(&[0; 10]));
        assert_eq!(["a", "b", "c"].map(|key| cache.get(key).is_some()), [true, false, true]);
    }
}
