//! The files of a model, where Hugging Face's tools leave them.
//!
//! A folder is the model's own, or the entry of a model in a hub cache (`models--ORG--NAME`), of which the snapshot
//! that `refs/main` names is taken, or the only one. Nothing is fetched; every file has a bound.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Longest file that is read, bytes. The largest vocabularies in use take 35 MB.
const MAX_BYTES: u64 = 256 << 20;

/// Why a folder gives no tokenizer. Each names the file and what to do.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The folder is not there.
    #[error(
        "{0}: no such folder; copy the model's tokenizer files (tokenizer.json, tokenizer_config.json) into it"
    )]
    NoFolder(PathBuf),
    /// A hub cache without a snapshot that can be taken.
    #[error(
        "{0}: a hub cache without the snapshot of `main`; download the model into it, or name a folder in snapshots/"
    )]
    NoSnapshot(PathBuf),
    /// A file that has to be there is not.
    #[error(
        "{0}: is missing; only models with this file can be tokenized here: save it with transformers' `save_pretrained`"
    )]
    Missing(PathBuf),
    /// A file cannot be read.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file is longer than any that is in use.
    #[error("{0}: is longer than {MAX_BYTES} bytes; it is no tokenizer's file")]
    TooLong(PathBuf),
    /// A file does not hold what it should.
    #[error("{file}: {message}; fetch it again from where the engine has it")]
    Broken {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The model comes with a tokenizer that engines prefer to the one in `tokenizer.json`.
    #[error(
        "{0}: engines tokenize this model with mistral-common, which is not known here; run without `tokenizer`, or start the engines with --tokenizer-mode hf and leave this file out of the folder"
    )]
    MistralCommon(PathBuf),
}

impl LoadError {
    pub(super) fn broken(file: &Path, message: impl ToString) -> Self {
        Self::Broken { file: file.into(), message: message.to_string() }
    }
}

/// A model's folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Finds the files of a model.
    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        if !path.is_dir() {
            return Err(LoadError::NoFolder(path.into()));
        }
        if path.join("snapshots").is_dir() && !path.join("tokenizer.json").exists() {
            return snapshot(path)
                .map(|path| Self { path })
                .ok_or_else(|| LoadError::NoSnapshot(path.into()));
        }
        Ok(Self { path: path.into() })
    }

    /// Where a file is, or would be.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A file's bytes; none where there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, LoadError> {
        let file = self.file(name);
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(&file).and_then(|opened| opened.take(MAX_BYTES + 1).read_to_end(&mut bytes));
        match read {
            Ok(_) if bytes.len() as u64 > MAX_BYTES => Err(LoadError::TooLong(file)),
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(LoadError::Unreadable { file, source }),
        }
    }

    /// A file as text.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, LoadError> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| LoadError::broken(&self.file(name), "is not UTF-8"))
    }

    /// A file as JSON.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, LoadError> {
        let Some(bytes) = self.read(name)? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|error| LoadError::broken(&self.file(name), error))
    }

    /// The first file whose name begins like this.
    pub(super) fn beginning(&self, start: &str) -> Option<PathBuf> {
        let entries = std::fs::read_dir(&self.path).ok()?;
        let mut names =
            entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
        names.next().map(|entry| entry.path())
    }
}

/// The snapshot of a model in a hub cache that its `main` names, or the only one.
fn snapshot(cache: &Path) -> Option<PathBuf> {
    let snapshots = cache.join("snapshots");
    if let Ok(hash) = std::fs::read_to_string(cache.join("refs/main")) {
        let named = snapshots.join(hash.trim());
        return (!hash.trim().contains(['/', '\\']) && named.is_dir()).then_some(named);
    }
    let mut all = std::fs::read_dir(snapshots).ok()?.flatten().filter(|entry| entry.path().is_dir());
    match (all.next(), all.next()) {
        (Some(only), None) => Some(only.path()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_hub_cache_is_opened_at_the_snapshot_of_main() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("models--org--name");
        for hash in ["aaa", "bbb"] {
            fs::create_dir_all(cache.join("snapshots").join(hash)).unwrap();
        }
        assert!(matches!(Folder::open(&cache), Err(LoadError::NoSnapshot(_))));
        fs::create_dir_all(cache.join("refs")).unwrap();
        fs::write(cache.join("refs/main"), "bbb\n").unwrap();
        assert_eq!(Folder::open(&cache).unwrap().file("x"), cache.join("snapshots/bbb/x"));
        fs::write(cache.join("refs/main"), "../../elsewhere").unwrap();
        assert!(matches!(Folder::open(&cache), Err(LoadError::NoSnapshot(_))));
        fs::remove_file(cache.join("refs/main")).unwrap();
        fs::remove_dir(cache.join("snapshots/aaa")).unwrap();
        assert_eq!(Folder::open(&cache).unwrap().file("x"), cache.join("snapshots/bbb/x"));
    }

    #[test]
    fn files_that_are_not_there_are_none_and_what_is_wrong_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        assert!(folder.read("tokenizer.json").unwrap().is_none());
        fs::write(dir.path().join("x.json"), b"{").unwrap();
        let error = folder.json::<serde_json::Value>("x.json").unwrap_err().to_string();
        assert!(error.contains("x.json: EOF"), "{error}");
        fs::write(dir.path().join("x.jinja"), b"\xff").unwrap();
        assert!(folder.text("x.jinja").unwrap_err().to_string().contains("is not UTF-8"));
        let error = Folder::open(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("no such folder"), "{error}");
    }
}
