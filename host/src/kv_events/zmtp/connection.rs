//! A connection to another socket.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::frame::{self, Assembler, Command, Item, ZmtpError};

/// Time in which the other side must greet.
const GREETS: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const READ: usize = 64 << 10;

/// What this side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kv_events) enum Socket {
    /// It gets what a publisher sends.
    Subscriber,
    /// It asks for what it missed.
    Dealer,
}

impl Socket {
    fn as_str(self) -> &'static str {
        match self {
            Self::Subscriber => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    fn talks_to(self, other: &str) -> bool {
        match self {
            Self::Subscriber => matches!(other, "PUB" | "XPUB"),
            Self::Dealer => matches!(other, "ROUTER" | "REP" | "DEALER"),
        }
    }
}

/// A connection whose other side has greeted.
#[derive(Debug)]
pub(in crate::kv_events) struct Connection {
    stream: TcpStream,
    assembler: Assembler,
}

impl Connection {
    /// Connects to where the other side listens.
    pub(in crate::kv_events) async fn to(host: &str, port: u16, socket: Socket) -> Result<Self, ZmtpError> {
        let stream = timeout(GREETS, TcpStream::connect((host, port))).await;
        Self::over(stream.map_err(|_| ZmtpError::Timeout)??, socket).await
    }

    /// Greets over a stream that is connected.
    pub(in crate::kv_events) async fn over(stream: TcpStream, socket: Socket) -> Result<Self, ZmtpError> {
        stream.set_nodelay(true)?;
        let mut connection = Self { stream, assembler: Assembler::default() };
        match timeout(GREETS, connection.greet(socket)).await {
            Ok(greeted) => greeted.map(|()| connection),
            Err(_) => Err(ZmtpError::Timeout),
        }
    }

    async fn greet(&mut self, socket: Socket) -> Result<(), ZmtpError> {
        self.stream.write_all(&frame::GREETING).await?;
        let mut greeting = [0; 64];
        self.stream.read_exact(&mut greeting).await?;
        frame::check_greeting(&greeting)?;
        self.stream.write_all(&frame::ready(socket.as_str())).await?;
        match self.item().await? {
            Item::Command(body) => match frame::command(body)? {
                Command::Ready(other) if socket.talks_to(&other) => Ok(()),
                Command::Ready(other) => Err(ZmtpError::Socket(other)),
                _ => Err(ZmtpError::Protocol("handshake")),
            },
            Item::Message(_) => Err(ZmtpError::Protocol("handshake")),
        }
    }

    /// Asks for the messages whose first frame begins with `topic`.
    pub(in crate::kv_events) async fn subscribe(&mut self, topic: &str) -> Result<(), ZmtpError> {
        self.send(&[&[b"\x01", topic.as_bytes()].concat()]).await
    }

    /// Sends a message.
    pub(in crate::kv_events) async fn send(&mut self, frames: &[&[u8]]) -> Result<(), ZmtpError> {
        Ok(self.stream.write_all(&frame::message(frames)).await?)
    }

    /// The next message. Nothing is lost when this future is dropped.
    pub(in crate::kv_events) async fn receive(&mut self) -> Result<Vec<Bytes>, ZmtpError> {
        loop {
            match self.item().await? {
                Item::Message(frames) => return Ok(frames),
                Item::Command(body) => match frame::command(body)? {
                    Command::Ping(context) => self.stream.write_all(&frame::pong(&context)).await?,
                    Command::Error(_) => return Err(ZmtpError::Closed),
                    Command::Ready(_) | Command::Other => {}
                },
            }
        }
    }

    async fn item(&mut self) -> Result<Item, ZmtpError> {
        loop {
            if let Some(item) = self.assembler.next()? {
                return Ok(item);
            }
            self.assembler.bytes.reserve(READ);
            if self.stream.read_buf(&mut self.assembler.bytes).await? == 0 {
                return Err(ZmtpError::Closed);
            }
        }
    }
}
