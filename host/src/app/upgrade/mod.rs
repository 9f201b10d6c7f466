//! From one process to the next without a refused connection.
//!
//! ```text
//! old                                     new
//!  │ starts it, with a socket as its standard input
//!  ├── listening sockets ───────────────► │ loads configuration and plugins, asks engines
//!  │ ◄──────────────────────────── `up` ──┤
//!  │ writes down what it knows            │
//!  ├── `known` ─────────────────────────► │ reads that, begins to accept
//!  │ ◄─────────────────────── `serving` ──┤
//!  │ stops accepting, lets requests end
//! ```
//!
//! Both accept from the same sockets, so that nothing that connects meets a closed one. Until `serving` the old one
//! serves as if nothing were; whatever goes wrong with the new one before leaves it so, and ends the new one.

mod control;
mod predecessor;
mod successor;
mod wire;

use std::path::PathBuf;

use tokio::sync::oneshot;

pub use control::ask;
pub(super) use control::listen;
pub use predecessor::Predecessor;
pub(super) use successor::{Sockets, hand_over, own_program};

/// Set for a process that is handed sockets through its standard input.
const HANDED: &str = "SLUICEGATE_HANDED_OVER";

/// Somebody wants another process to take over.
#[derive(Debug)]
pub(super) struct Ask {
    /// What it runs; none: the program by whose name this process was started.
    pub(super) program: Option<PathBuf>,
    /// Its process id, or why it did not.
    pub(super) answer: oneshot::Sender<Result<u32, String>>,
}
