//! The watched directory of a running router, and versions of a policy that it has never seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ask;
use crate::error::Error;

/// How long a version may take to be in force.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether it is.
const PAUSE: Duration = Duration::from_millis(100);

/// A directory with one policy.
pub(crate) struct Watched {
    directory: PathBuf,
    policy: String,
    bytes: Vec<u8>,
    admin: u16,
    version: u32,
    /// How many versions there are before the first comes again.
    versions: u32,
}

impl Watched {
    /// An empty directory. `component` is the policy, of which `versions` are made; `admin` the router's port.
    pub(crate) fn new(
        directory: PathBuf,
        component: &Path,
        policy: &str,
        admin: u16,
        versions: u32,
    ) -> Result<Self, Error> {
        let _not_there = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory)
            .map_err(Error::io(format!("cannot create {}", directory.display())))?;
        let bytes = fs::read(component).map_err(Error::io(format!("cannot read {}", component.display())))?;
        Ok(Self { directory, policy: policy.to_owned(), bytes, admin, version: 0, versions: versions.max(2) })
    }

    /// Renames the next version into the directory and waits until it is in force.
    pub(crate) fn swap(&mut self) -> Result<(), Error> {
        let before = self.generation()?;
        self.version = (self.version + 1) % self.versions;
        let part = self.directory.join(".part");
        let file = self.directory.join(format!("{}.wasm", self.policy));
        fs::write(&part, self.next())
            .and_then(|()| fs::rename(&part, &file))
            .map_err(Error::io("cannot swap"))?;
        let begin = Instant::now();
        while self.generation()? <= before {
            if begin.elapsed() > PATIENCE {
                let status = format!("version {} was not taken in {PATIENCE:?}", self.version);
                return Err(Error::Failed { program: "sluicegate".to_owned(), status });
            }
            std::thread::park_timeout(PAUSE);
        }
        Ok(())
    }

    /// The same component with its number in a section that nobody reads: other bytes, another digest.
    fn next(&self) -> Vec<u8> {
        let number = self.version.to_le_bytes();
        let mut bytes = self.bytes.clone();
        // Section 0, of 6 bytes: a name of one letter, and the number.
        bytes.extend([0, 6, 1, b'v']);
        bytes.extend(number);
        bytes
    }

    /// How often the router has swapped its policies.
    fn generation(&self) -> Result<f64, Error> {
        const METRIC: &str = "\nsluicegate_policy_set_generation ";
        let page = ask::get(self.admin, "/metrics").map_err(Error::io("cannot read the router's metrics"))?;
        let value = page.split_once(METRIC).and_then(|(_, rest)| rest.lines().next()?.trim().parse().ok());
        value.ok_or_else(|| Error::Failed { program: "sluicegate".to_owned(), status: page })
    }
}
