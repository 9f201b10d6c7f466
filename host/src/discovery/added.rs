//! Endpoints that an operator added while the router ran.
//!
//! They outlive other configurations and restarts: `endpoints.json` in `state_dir` holds them. What cannot be written is
//! not done. A file that cannot be understood is set aside under another name, with a warning.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::pool::EndpointSpec;
use crate::types::{Role, Url};

/// The file in `state_dir`.
const FILE: &str = "endpoints.json";
/// What this version writes and reads.
const FORMAT: u32 = 1;

/// An endpoint, as it was added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    /// Of which pool.
    pub pool: Box<str>,
    /// Where it listens.
    pub url: Box<str>,
    /// What it may do.
    pub role: Role,
    /// Its share against the others.
    pub weight: f32,
    /// For policies, under `label:KEY`.
    pub labels: BTreeMap<Box<str>, Box<str>>,
}

impl Addition {
    /// What it is for a pool.
    #[must_use]
    pub fn spec(&self) -> Option<EndpointSpec> {
        let labels = self.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let url = Url::parse(&self.url).ok()?;
        Some(EndpointSpec { role: self.role, weight: self.weight, labels, ..EndpointSpec::new(url) })
    }

    /// Its id.
    fn name(&self) -> Option<String> {
        Url::parse(&self.url).ok().map(|url| url.name())
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    format: u32,
    endpoints: Vec<Addition>,
}

/// All of them.
#[derive(Debug)]
pub struct Additions {
    file: PathBuf,
    all: Mutex<Vec<Addition>>,
}

impl Additions {
    /// Those that were added before.
    #[must_use]
    pub fn open(state_dir: &Path) -> Self {
        let file = state_dir.join(FILE);
        let document: Document =
            files::read_document(&file, FORMAT, "which endpoints were added is not known");
        Self { file, all: Mutex::new(document.endpoints) }
    }

    /// Those of a pool.
    #[must_use]
    pub fn of(&self, pool: &str) -> Vec<Addition> {
        self.all.lock().iter().filter(|added| &*added.pool == pool).cloned().collect()
    }

    /// The pool of the one with this id, when it was added.
    #[must_use]
    pub fn pool_of(&self, id: &str) -> Option<Box<str>> {
        self.all
            .lock()
            .iter()
            .find(|added| added.name().as_deref() == Some(id))
            .map(|added| added.pool.clone())
    }

    /// Adds one.
    ///
    /// # Errors
    /// When it cannot be written; then it is not added.
    pub fn add(&self, addition: Addition) -> io::Result<()> {
        self.change(|all| all.push(addition))
    }

    /// Takes one away.
    ///
    /// # Errors
    /// When it cannot be written; then it stays.
    pub fn remove(&self, id: &str) -> io::Result<()> {
        self.change(|all| all.retain(|added| added.name().as_deref() != Some(id)))
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Addition>)) -> io::Result<()> {
        let mut all = self.all.lock();
        let mut endpoints = all.clone();
        change(&mut endpoints);
        let document = Document { format: FORMAT, endpoints };
        files::replace(&self.file, &serde_json::to_vec_pretty(&document)?)?;
        *all = document.endpoints;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addition(url: &str) -> Addition {
        let labels = BTreeMap::from([("zone".into(), "a".into())]);
        Addition { pool: "p".into(), url: url.into(), role: Role::Decode, weight: 2.0, labels }
    }

    #[test]
    fn they_are_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let additions = Additions::open(folder.path());
        additions.add(addition("http://a:1")).unwrap();
        additions.add(addition("http://b:1/base")).unwrap();
        additions.remove("a:1").unwrap();
        let again = Additions::open(folder.path());
        assert_eq!(again.of("p"), [addition("http://b:1/base")]);
        assert_eq!(again.pool_of("b:1").as_deref(), Some("p"));
        assert!(again.of("other").is_empty() && again.pool_of("a:1").is_none());
        let spec = again.of("p")[0].spec().unwrap();
        assert_eq!((spec.role, spec.weight, &*spec.labels[0].1), (Role::Decode, 2.0, "a"));
    }

    #[test]
    fn what_cannot_be_understood_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{\"format\": 7}").unwrap();
        let additions = Additions::open(folder.path());
        assert!(additions.of("p").is_empty());
        assert!(folder.path().join("endpoints.json.unreadable").exists());
    }
}
