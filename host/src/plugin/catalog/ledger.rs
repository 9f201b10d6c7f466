//! What of the plugins outlives a restart, in `state_dir`.
//!
//! `plugins.json` holds a [`Record`] a plugin: what was promoted over which file, what is in force, which
//! digests are refused. `versions/DIGEST.wasm` holds the bytes of versions that may have to come back. Files
//! of the watched directory are never renamed or changed. Nothing is written before there is something to
//! say, and a directory that cannot be written costs the memory of it over a restart, never the service: the
//! bytes are then kept in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::super::artifact::digest;
use crate::config::Beside;
use crate::files;

const FORMAT: u32 = 1;

/// A version that was promoted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Promoted {
    /// Of its bytes.
    pub(super) digest: Box<str>,
    /// Of the file that it was promoted over; empty where the built-in was. It stays in force until there is
    /// another file.
    pub(super) over: Box<str>,
    /// The settings that it was tried with.
    pub(super) weight: Option<f32>,
    pub(super) config: Option<serde_json::Value>,
}

impl Promoted {
    pub(super) fn beside(&self) -> Beside {
        Beside { weight: self.weight, config: self.config.clone(), mode: None }
    }
}

/// A version that is kept out, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptOut {
    pub(super) why: String,
}

/// What is remembered of one plugin.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// Turned off by an operator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) off: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) promoted: Option<Promoted>,
    /// The version in force, where it is a file's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_force: Option<Box<str>>,
    /// The newest signed version seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) signed: Option<u64>,
    /// Digests that were rolled back.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) refused: BTreeMap<Box<str>, KeptOut>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    format: u32,
    plugins: BTreeMap<Box<str>, Record>,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: PathBuf,
    /// What the file holds, and bytes that could not be written.
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    written: BTreeMap<Box<str>, Record>,
    bytes: BTreeMap<Box<str>, Arc<[u8]>>,
    warned: bool,
}

impl Ledger {
    /// Reads what is there. A file that cannot be understood is set aside under another name, with a warning.
    pub(super) fn open(folder: &Path) -> (Self, BTreeMap<Box<str>, Record>) {
        let path = folder.join("plugins.json");
        let document: Document =
            files::read_document(&path, FORMAT, "what was promoted and refused is not known");
        let records = document.plugins;
        let kept = Kept { written: records.clone(), ..Kept::default() };
        (Self { folder: folder.into(), kept: Mutex::new(kept) }, records)
    }

    /// Writes the records down if they say something else than the file.
    pub(super) fn write(&self, records: BTreeMap<Box<str>, Record>) {
        let mut kept = self.kept.lock();
        let plugins: BTreeMap<_, _> =
            records.into_iter().filter(|(_, record)| *record != Record::default()).collect();
        if plugins == kept.written {
            return;
        }
        let document = Document { format: FORMAT, plugins };
        let written = serde_json::to_vec_pretty(&document)
            .map_err(io::Error::other)
            .and_then(|text| files::replace(&self.folder.join("plugins.json"), &text));
        kept.note(&self.folder, written);
        kept.written = document.plugins;
    }

    /// Keeps the bytes of a version.
    pub(super) fn keep(&self, digest: &str, bytes: &Arc<[u8]>) {
        let mut kept = self.kept.lock();
        if self.version(digest).exists() || kept.bytes.contains_key(digest) {
            return;
        }
        let written = files::replace(&self.version(digest), bytes);
        if written.is_err() {
            kept.bytes.insert(digest.into(), Arc::clone(bytes));
        }
        kept.note(&self.folder, written);
    }

    /// The bytes of a version that was kept; none when they are gone or not what they were.
    pub(super) fn bytes(&self, wanted: &str) -> Option<Arc<[u8]>> {
        let in_memory = self.kept.lock().bytes.get(wanted).cloned();
        let bytes = match in_memory {
            Some(bytes) => bytes,
            None => std::fs::read(self.version(wanted)).ok()?.into(),
        };
        (*digest(&bytes) == *wanted).then_some(bytes)
    }

    /// Lets go of all versions but these.
    pub(super) fn prune(&self, needed: &BTreeSet<Box<str>>) {
        self.kept.lock().bytes.retain(|digest, _| needed.contains(digest));
        let Ok(files) = std::fs::read_dir(self.folder.join("versions")) else { return };
        for path in files.flatten().map(|file| file.path()) {
            let digest = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !needed.contains(digest)
                && let Err(error) = std::fs::remove_file(&path)
            {
                tracing::debug!(file = %path.display(), %error, "an old version cannot be removed");
            }
        }
    }

    fn version(&self, digest: &str) -> PathBuf {
        self.folder.join("versions").join(format!("{digest}.wasm"))
    }
}

impl Kept {
    fn note(&mut self, folder: &Path, written: io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!(
                state_dir = %folder.display(), %error,
                "it cannot be written: promotions, refused versions and their bytes are kept in memory alone"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let refused = BTreeMap::from([("d2".into(), KeptOut { why: "it traps".into() })]);
        Record { in_force: Some("d1".into()), refused, ..Record::default() }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, records) = Ledger::open(folder.path());
        assert!(records.is_empty());
        let records = BTreeMap::from([("x".into(), record()), ("y".into(), Record::default())]);
        ledger.write(records);
        let (_, read) = Ledger::open(folder.path());
        assert_eq!(read, BTreeMap::from([("x".into(), record())]));
    }

    #[test]
    fn nothing_is_written_before_there_is_something_to_say() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let (ledger, _) = Ledger::open(&state);
        ledger.write(BTreeMap::from([("x".into(), Record::default())]));
        ledger.prune(&BTreeSet::new());
        assert!(!state.exists());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["{", "{\"format\": 99, \"plugins\": {}}"] {
            std::fs::write(folder.path().join("plugins.json"), text).unwrap();
            assert!(Ledger::open(folder.path()).1.is_empty());
            let aside = folder.path().join("plugins.json.unreadable");
            assert_eq!(std::fs::read_to_string(aside).unwrap(), text);
        }
    }

    #[test]
    fn versions_are_kept_until_nobody_needs_them() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, _) = Ledger::open(folder.path());
        let bytes: Arc<[u8]> = Arc::from(*b"wasm");
        let name = digest(&bytes);
        ledger.keep(&name, &bytes);
        assert_eq!(ledger.bytes(&name), Some(Arc::clone(&bytes)));
        std::fs::write(ledger.version(&name), "other").unwrap();
        assert_eq!(ledger.bytes(&name), None, "not what they were");
        ledger.prune(&BTreeSet::new());
        assert!(!ledger.version(&name).exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_costs_nothing_but_the_memory_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let (ledger, _) = Ledger::open(&file.join("state"));
        let bytes: Arc<[u8]> = Arc::from(*b"wasm");
        ledger.keep(&digest(&bytes), &bytes);
        ledger.write(BTreeMap::from([("x".into(), record())]));
        assert_eq!(ledger.bytes(&digest(&bytes)), Some(bytes));
    }
}
