//! The process whose place this one takes.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::HANDED;
use super::wire::Wire;

/// How long it may take to say what it should: it writes down all that it knows.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process before.
#[derive(Debug)]
pub struct Predecessor {
    wire: Wire,
    sockets: Vec<(String, OwnedFd)>,
}

impl Predecessor {
    /// The process that started this one to take its place, if one did.
    ///
    /// # Errors
    /// When it does not hand over its sockets.
    pub fn find() -> io::Result<Option<Self>> {
        if std::env::var_os(HANDED).is_none() {
            return Ok(None);
        }
        let wire = Wire::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
        let sockets = wire.take(PATIENCE)?;
        Ok(Some(Self { wire, sockets }))
    }

    /// This process cannot take over.
    pub fn failed(&self, why: &dyn std::fmt::Display) {
        // It finds out in any case.
        let _ = self.wire.say(&format!("failed: {why}"));
    }

    /// The socket that is configured by this address; one that listens elsewhere is of no use.
    pub(in crate::app) fn listener(&mut self, address: &str) -> Option<TcpListener> {
        let place = self.sockets.iter().position(|(name, _)| name == address)?;
        Some(TcpListener::from(self.sockets.swap_remove(place).1))
    }

    /// This process could serve. Returns when the one before has written down what it knows.
    pub(in crate::app) fn up(&self) -> io::Result<()> {
        self.wire.say("up")?;
        match self.wire.hear(PATIENCE)?.as_str() {
            "known" => Ok(()),
            other => Err(io::Error::other(format!("it said `{other}`"))),
        }
    }

    /// This process accepts connections.
    pub(in crate::app) fn serving(&self) {
        if let Err(error) = self.wire.say("serving") {
            tracing::warn!(%error, "the process before this one is gone already");
        }
    }
}
