//! A directory of policies, and the ways in which people change one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::places;

/// A directory for `--plugins`; gone when it is dropped.
#[derive(Debug)]
pub struct PluginDir {
    folder: TempDir,
}

impl PluginDir {
    /// An empty one.
    ///
    /// # Panics
    /// When the machine has no room for it.
    #[must_use]
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts `NAME.wasm` there by renaming, as a careful operator or tool does.
    ///
    /// # Panics
    /// When it cannot be written; so for all that write here.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        self.put_file(&format!("{name}.wasm"), bytes);
    }

    /// Puts any file there by renaming.
    pub fn put_file(&self, name: &str, bytes: &[u8]) {
        let part = self.path().join(format!(".{name}.part"));
        fs::write(&part, bytes).unwrap();
        fs::rename(part, self.path().join(name)).unwrap();
    }

    /// Writes `NAME.wasm` in place and in pieces, with pauses, as a copy over a slow line does.
    pub async fn write_slowly(&self, name: &str, bytes: &[u8], pieces: usize, pause: Duration) {
        let mut file = File::create(self.file(name)).unwrap();
        for piece in bytes.chunks(bytes.len().div_ceil(pieces)) {
            file.write_all(piece).unwrap();
            file.flush().unwrap();
            tokio::time::sleep(pause).await;
        }
    }

    /// Removes `NAME.wasm`.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.file(name)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(format!("{name}.wasm"))
    }
}

impl Default for PluginDir {
    fn default() -> Self {
        Self::new()
    }
}

/// The component of a test guest.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn guest(name: &str) -> Vec<u8> {
    component(&places::guests(), name)
}

/// A component that does the same and has another digest: a custom section at its end holds the number.
#[must_use]
pub fn another(component: &[u8], number: u8) -> Vec<u8> {
    const CUSTOM: u8 = 0;
    [component, &[CUSTOM, 3, 1, b'n', number]].concat()
}

/// The component of a default plugin.
///
/// # Panics
/// When there is none of this name.
#[must_use]
pub fn builtin(name: &str) -> Vec<u8> {
    component(&places::plugins(), name)
}

fn component(folder: &Path, name: &str) -> Vec<u8> {
    let file = folder.join(format!("{name}.wasm"));
    fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The digest by which the router tells versions of a plugin apart.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
