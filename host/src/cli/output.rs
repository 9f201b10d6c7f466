//! What a command leaves behind.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

/// The answer, on stdout. A reader that went away (`| head`) is no error.
pub(super) fn good(text: &str) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// What is wrong, on stderr.
pub(super) fn bad(problem: &impl Display) -> ExitCode {
    let _ = writeln!(std::io::stderr().lock(), "{problem}");
    ExitCode::FAILURE
}
