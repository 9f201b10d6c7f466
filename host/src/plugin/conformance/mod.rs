//! `sluicegate plugin test`: what a plugin must stand before it meets traffic.
//!
//! Each check is one file. [`test`] loads the plugin as the proxy would, with a clock that stands still and a store
//! of its own, and goes through them; what fails says why in its author's words. A plugin that does not load has one
//! check, which failed.

mod determinism;
mod inputs;
mod memory;
mod own;
mod report;
mod subject;
mod timing;

use std::sync::Arc;

use super::engine::{Runtime, RuntimeError};
use super::load::{Kept, Loaded, Services};
use crate::clock::{ManualClock, SECOND};
use crate::config::PluginConfig;
use crate::policy::Source;

pub use report::{Check, Report, Timing};
use subject::Subject;

/// Tests a plugin with this configuration; memory is watched over `calls` calls.
///
/// # Errors
/// When nothing can be loaded here at all.
pub fn test(bytes: &[u8], config: &PluginConfig, calls: usize) -> Result<Report, RuntimeError> {
    let services = Services::alone(Arc::new(Runtime::start(None)?), ManualClock::at(1_000 * SECOND));
    let mut report = Report::of(config, bytes);
    let loaded = Loaded::new(&services, bytes, Source::File, 0, config)
        .and_then(|loaded| loaded.instances(&services, &Kept::default(), config).map(|_| loaded));
    match loaded {
        Ok(loaded) => {
            report.passed("plugin", "loads", format!("exports {}", loaded.stages().join(", ")));
            let subject = Subject { services, loaded, config: config.clone() };
            inputs::check(&subject, &mut report);
            determinism::check(&subject, &mut report);
            timing::check(&subject, &mut report);
            own::check(&subject, &mut report);
            memory::check(&subject, calls, &mut report);
        }
        Err(error) => report.failed("plugin", "loads", error.to_string()),
    }
    Ok(report)
}
