//! What lies in the plugin directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl Stamp {
    /// The state of the file that `path` leads to; none when there is none.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        metadata.is_file().then(|| Self {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            inode: inode(&metadata),
        })
    }
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}

/// Lists what concerns plugins: `NAME.wasm` and `NAME.toml`, with what each path leads to now. Names that
/// begin with a dot are left out: mounted configuration and editors keep their working copies there.
#[must_use]
pub fn list(directory: &Path) -> BTreeMap<PathBuf, Stamp> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeMap::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_plugin_file(path))
        .filter_map(|path| Stamp::of(&path).map(|stamp| (path, stamp)))
        .collect()
}

fn is_plugin_file(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let stem = [".wasm", ".toml", ".wasm.sig"].into_iter().find_map(|ending| name.strip_suffix(ending));
    stem.is_some_and(|stem| is_name(stem.strip_suffix(".next").unwrap_or(stem)))
}

/// Whether a text may be a plugin's name: it appears in metrics, paths and configuration.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugin_files_are_listed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a.wasm", "a.toml", ".b.wasm", "c.wasm~", "d e.wasm", "e.next.wasm", "readme.md"] {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        std::fs::create_dir(directory.path().join("dir.wasm")).unwrap();
        let listed = list(directory.path());
        let names: Vec<_> = listed.keys().filter_map(|path| path.file_name()?.to_str()).collect();
        assert_eq!(names, ["a.toml", "a.wasm", "e.next.wasm"]);
    }

    #[test]
    fn a_missing_directory_is_empty() {
        assert!(list(Path::new("no/such/directory")).is_empty());
    }
}
