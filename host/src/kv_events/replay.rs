//! Asking a publisher for messages that were missed.
//!
//! vLLM's protocol: a number of 8 bytes asks for everything from there on, as far as it is kept. Each message comes
//! with its number; the number -1 ends them. Between them and our name for ourselves stands an empty frame, and older
//! versions leave out the topic.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout, timeout_at};

use super::zmtp::{Connection, Socket, ZmtpError};
use crate::types::TcpAddress;

/// How long the next message may take.
const NEXT: Duration = Duration::from_secs(2);
/// How long all of them may take.
const ALL: Duration = Duration::from_secs(60);
/// The number behind the last message.
const END: u64 = u64::MAX;

/// Messages that come because they were asked for.
#[derive(Debug)]
pub(super) struct Replay {
    connection: Connection,
    end: Instant,
}

impl Replay {
    /// Asks for the messages from this number on.
    pub(super) async fn from(address: &TcpAddress, number: u64) -> Result<Self, ZmtpError> {
        let mut connection = Connection::to(&address.host, address.port, Socket::Dealer).await?;
        connection.send(&[b"", &number.to_be_bytes()]).await?;
        Ok(Self { connection, end: Instant::now() + ALL })
    }

    /// The next message with its number; none behind the last.
    pub(super) async fn next(&mut self) -> Result<Option<(u64, Bytes)>, ZmtpError> {
        let next = timeout_at(self.end, timeout(NEXT, self.connection.receive())).await;
        let frames = next.map_err(|_| ZmtpError::Timeout)?.map_err(|_| ZmtpError::Timeout)??;
        let (payload, number) = match frames.as_slice() {
            [.., number, payload] => (payload, <[u8; 8]>::try_from(&**number).ok()),
            _ => return Err(ZmtpError::Protocol("replay")),
        };
        match number.map(u64::from_be_bytes) {
            None => Err(ZmtpError::Protocol("replay")),
            Some(END) => Ok(None),
            Some(number) => Ok(Some((number, payload.clone()))),
        }
    }
}
