//! The process that takes over, as the one before it sees it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::HANDED;
use super::wire::Wire;

/// How long it may take until it is up: it compiles plugins, and waits for engines.
const UNTIL_UP: Duration = Duration::from_secs(180);
/// How long it may take until it serves.
const UNTIL_SERVING: Duration = Duration::from_secs(60);

/// The listening sockets of this process, to be handed over. Dropping it leaves them to those who listen.
#[derive(Debug)]
pub(in crate::app) struct Sockets(Vec<(String, OwnedFd)>);

impl Sockets {
    /// Copies of these sockets, each with the address that it is configured by.
    pub(in crate::app) fn of(listeners: &[(&str, &dyn AsFd)]) -> io::Result<Self> {
        let copy = |(name, listener): &(&str, &dyn AsFd)| {
            Ok(((*name).to_owned(), listener.as_fd().try_clone_to_owned()?))
        };
        listeners.iter().map(copy).collect::<io::Result<_>>().map(Self)
    }
}

/// Starts `program` as this process was started, and hands over. Blocks until it serves; `know` writes down what is
/// known. Its process id.
///
/// # Errors
/// Why it does not serve; it is gone then.
pub(in crate::app) fn hand_over(
    program: &Path,
    sockets: &Sockets,
    know: impl FnOnce(),
) -> Result<u32, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|error| format!("no socket to talk by: {error}"))?;
    let child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(HANDED, "1")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| format!("{}: it cannot be started: {error}", program.display()))?;
    let mut child = Killed(Some(child));
    match talk(&Wire::new(ours), sockets, know) {
        Ok(()) => child.0.take().map(|child| child.id()).ok_or_else(|| "it is gone".into()),
        Err(why) => Err(why),
    }
}

fn talk(wire: &Wire, sockets: &Sockets, know: impl FnOnce()) -> Result<(), String> {
    let lost = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it was not ready in time".to_owned(),
        _ => "it ended before it was ready; its log says why".to_owned(),
    };
    let given: Vec<_> = sockets.0.iter().map(|(name, fd)| (name.as_str(), fd.as_fd())).collect();
    wire.give(&given).map_err(lost)?;
    expect("up", &wire.hear(UNTIL_UP).map_err(lost)?)?;
    know();
    wire.say("known").map_err(lost)?;
    expect("serving", &wire.hear(UNTIL_SERVING).map_err(lost)?)
}

fn expect(expected: &str, line: &str) -> Result<(), String> {
    match line.strip_prefix("failed: ") {
        _ if line == expected => Ok(()),
        Some(why) => Err(why.to_owned()),
        None => Err(format!("it said `{line}` where `{expected}` was expected")),
    }
}

/// Ends the process when dropped with it.
struct Killed(Option<Child>);

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The program that this process was started as: what lies there now, which may be another release.
pub(in crate::app) fn own_program() -> io::Result<PathBuf> {
    let named = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    if named.components().count() > 1 {
        return std::path::absolute(named);
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|folder| folder.join(&named));
    match found.filter(|_| named.as_os_str() != OsStr::new("")).find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => std::env::current_exe(),
    }
}
