//! Programs that chores run: echoed to stderr, and an error when they fail.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::Workspace;

/// Says on stderr what is going on.
pub(crate) fn say(what: impl AsRef<str>) {
    eprintln!("xtask: {}", what.as_ref());
}

/// A call of the cargo that called us, in the project's folder.
///
/// What that cargo tells us of our own package stays with us: build scripts (ring's) take it for a change, and
/// whatever hangs on them would be compiled again at each turn between `cargo build` and a chore.
pub(crate) fn cargo(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root()).args(arguments);
    let ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(ours)) {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
///
/// # Errors
/// When it cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let shown = show(command);
    say(&shown);
    let status = command.status().map_err(Error::io(format!("cannot run {shown}")))?;
    if status.success() { Ok(()) } else { Err(Error::Failed { program: shown, status: status.to_string() }) }
}

/// Whether the program is there and answers to `arguments` with success.
pub(crate) fn works(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
