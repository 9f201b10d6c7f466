//! Files loaded as the proxy would, one after another, without any of them being taken into service.
//!
//! For tools that look at foreign bytes. Nothing that one file leaves reaches the next: each has a store,
//! series and column names of its own.

use std::sync::Arc;

use super::engine::{Runtime, RuntimeError};
use super::load::{Kept, LoadError, Loaded, Services};
use crate::clock::{Clock, RealClock};
use crate::config::PluginConfig;
use crate::policy::Source;

/// What files are loaded with.
pub struct Loader {
    runtime: Arc<Runtime>,
    clock: Arc<dyn Clock>,
}

impl Loader {
    /// Makes an engine.
    ///
    /// # Errors
    /// When the platform cannot run one.
    pub fn start() -> Result<Self, RuntimeError> {
        Ok(Self { runtime: Arc::new(Runtime::start(None)?), clock: RealClock::start() })
    }

    /// Checks, compiles, configures and tries out one file; says which stages it exports.
    ///
    /// # Errors
    /// When the proxy would refuse it, in the same words.
    pub fn load(&self, bytes: &[u8], config: &PluginConfig) -> Result<Vec<&'static str>, LoadError> {
        let services = Services::alone(Arc::clone(&self.runtime), Arc::clone(&self.clock));
        let loaded = Loaded::new(&services, bytes, Source::File, 0, config)?;
        loaded.instances(&services, &Kept::default(), config)?;
        Ok(loaded.stages().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_was_found_once_is_not_found_again() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions/load");
        let loader = Loader::start().unwrap();
        let config = PluginConfig::named("found");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let outcome = loader.load(&std::fs::read(&path).unwrap(), &config);
            assert!(outcome.is_err(), "{} is a plugin", path.display());
            count += 1;
        }
        assert!(count > 0, "no file was tried");
    }
}
