//! A store that engines share: a folder with an empty file for each prompt whose cache is in it.

use std::path::PathBuf;

/// The folder; without one nothing is ever found.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Store {
    folder: Option<PathBuf>,
}

impl Store {
    pub(in crate::engine) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn file(&self, prompt: u64) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("{prompt:016x}")))
    }

    /// Whether the cache of the prompt with this hash is there.
    pub(in crate::engine) fn holds(&self, prompt: u64) -> bool {
        self.file(prompt).is_some_and(|file| file.exists())
    }

    /// Puts it there. A store that is full or gone loses it, as a cache may.
    pub(in crate::engine) fn put(&self, prompt: u64) {
        if let Some(file) = self.file(prompt) {
            let _lost = std::fs::write(file, b"");
        }
    }
}
