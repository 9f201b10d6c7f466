//! What a command leaves behind.

use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::config::ConfigErrors;
use crate::plugin::compile::{program, try_apart};

/// The exit code of a wrong command line.
const USAGE: u8 = 2;

/// The answer, on stdout. A reader that went away (`| head`) is no error.
pub(super) fn good(text: &str) -> ExitCode {
    tell(text, ExitCode::SUCCESS)
}

/// The answer with another exit code: what was asked for can be told, and is bad.
pub(super) fn tell(text: &str, code: ExitCode) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    code
}

/// The bytes of a file, or what to say when there are none.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: cannot be read: {error}", file.display()))
}

/// The bytes of a plugin's file, or what to say when there are none, or no process survives them.
pub(super) fn read_plugin(file: &Path) -> Result<Vec<u8>, String> {
    let bytes = read(file)?;
    let program = program().map_err(|error| format!("this program cannot find itself: {error}"))?;
    try_apart(program, &bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(bytes)
}

/// What is wrong with a configuration, on stderr; the exit code tells a wrong command line from a wrong file.
pub(super) fn bad_config(errors: &ConfigErrors) -> ExitCode {
    let code = bad(errors);
    if errors.are_of_the_command_line() { ExitCode::from(USAGE) } else { code }
}

/// What is wrong, on stderr.
pub(super) fn bad(problem: &impl Display) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "{problem}");
    ExitCode::FAILURE
}
