//! ZeroMQ's transport protocol, ZMTP 3.0 without encryption, as far as a subscriber needs it.
//!
//! Written here and not taken from a library, because what the other side sends must cost bounded memory: a message
//! has a limit before its first byte is read, and nothing is queued but what the system's socket holds. Whoever
//! falls behind is so told by a gap in the numbers of the messages.

mod connection;
mod frame;

pub(super) use connection::{Connection, Socket};
pub(super) use frame::ZmtpError;
