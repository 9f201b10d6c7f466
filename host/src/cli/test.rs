//! `sluicegate plugin test`

use std::path::Path;
use std::process::ExitCode;

use super::output::{bad, read_plugin, tell};
use super::settings::Settings;
use crate::plugin::conformance;

/// Goes through all checks.
pub(super) fn test(file: &Path, settings: Settings, calls: usize, json: bool) -> ExitCode {
    let (bytes, config) = match read_plugin(file).and_then(|bytes| Ok((bytes, settings.of(file)?))) {
        Ok(both) => both,
        Err(problem) => return bad(&problem),
    };
    let report = match conformance::test(&bytes, &config, calls) {
        Ok(report) => report,
        Err(error) => return bad(&error),
    };
    let text = if json { format!("{:#}\n", report.to_json()) } else { report.to_text() };
    tell(&text, if report.failures() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
