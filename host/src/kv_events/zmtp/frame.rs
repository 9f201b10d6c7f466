//! Greetings, frames and commands, as bytes.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of one message, all of its frames together. A step of an engine reports some hundred KB at most.
pub(in crate::kv_events) const MAX_MESSAGE: usize = 4 << 20;
/// Frames of one message.
const MAX_FRAMES: usize = 16;
/// Bytes of one command.
const MAX_COMMAND: usize = 4 << 10;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// Why there is no connection, or no more of it.
#[derive(Debug, thiserror::Error)]
pub(in crate::kv_events) enum ZmtpError {
    /// The socket failed, or nobody listens.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The other side ended it.
    #[error("the connection was closed")]
    Closed,
    /// The other side did not do its part in time.
    #[error("no answer in time")]
    Timeout,
    /// The other side speaks something else.
    #[error("the other side does not speak ZMTP 3 without encryption: {0}")]
    Protocol(&'static str),
    /// The other side is a socket of the wrong kind.
    #[error("the other side is a {0} socket")]
    Socket(String),
    /// A message is too long.
    #[error("a message is longer than {MAX_MESSAGE} bytes, or has more than {MAX_FRAMES} frames")]
    TooLong,
}

/// The first 64 bytes of each side.
pub(super) const GREETING: [u8; 64] = *b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Holds the other side's greeting against ours.
pub(super) fn check_greeting(bytes: &[u8; 64]) -> Result<(), ZmtpError> {
    let (Some((signature, rest)), Some(mechanism)) = (bytes.split_first_chunk::<10>(), bytes.get(12..32))
    else {
        return Err(ZmtpError::Protocol("greeting"));
    };
    if !matches!(signature, [0xff, .., 0x7f]) {
        return Err(ZmtpError::Protocol("signature"));
    }
    if rest.first().is_none_or(|major| *major < 3) {
        return Err(ZmtpError::Protocol("version"));
    }
    if GREETING.get(12..32) == Some(mechanism) { Ok(()) } else { Err(ZmtpError::Protocol("mechanism")) }
}

/// The command that tells the other side what socket this is.
pub(super) fn ready(socket: &str) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", socket), ("Identity", "")] {
        body.push(u8::try_from(name.len()).unwrap_or(0));
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&u32::try_from(value.len()).unwrap_or(0).to_be_bytes());
        body.extend_from_slice(value.as_bytes());
    }
    frame(COMMAND, &body)
}

/// The answer to a command that asks whether anybody is there.
pub(super) fn pong(context: &[u8]) -> Vec<u8> {
    frame(COMMAND, &[b"\x04PONG", context].concat())
}

/// A message of these frames.
pub(super) fn message(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len().saturating_sub(1);
    let frames = parts.iter().enumerate().map(|(n, part)| frame(if n < last { MORE } else { 0 }, part));
    frames.collect::<Vec<_>>().concat()
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = match u8::try_from(body.len()) {
        Ok(len) => vec![flags, len],
        Err(_) => [&[flags | LONG][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    bytes.extend_from_slice(body);
    bytes
}

/// What a command says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The other side is this kind of socket.
    Ready(String),
    /// It wants to know whether anybody is there.
    Ping(Bytes),
    /// It wants nothing to do with us.
    Error(String),
    /// Something that can be left alone.
    Other,
}

/// Reads the body of a command.
pub(super) fn command(mut body: Bytes) -> Result<Command, ZmtpError> {
    let name = short(&mut body)?;
    match &*name {
        b"READY" => {
            let mut socket = String::new();
            while !body.is_empty() {
                let name = short(&mut body)?;
                let len = body.try_get_u32().map_err(|_| ZmtpError::Protocol("command"))?;
                let value = take(&mut body, usize::try_from(len).unwrap_or(usize::MAX))?;
                if name.eq_ignore_ascii_case(b"Socket-Type") {
                    socket = String::from_utf8_lossy(&value).into_owned();
                }
            }
            Ok(Command::Ready(socket))
        }
        b"PING" => {
            let context = body.get(2..).ok_or(ZmtpError::Protocol("command"))?;
            Ok(Command::Ping(Bytes::copy_from_slice(context)))
        }
        b"ERROR" => Ok(Command::Error(String::from_utf8_lossy(&short(&mut body)?).into_owned())),
        _ => Ok(Command::Other),
    }
}

fn short(body: &mut Bytes) -> Result<Bytes, ZmtpError> {
    let len = body.try_get_u8().map_err(|_| ZmtpError::Protocol("command"))?;
    take(body, len.into())
}

fn take(body: &mut Bytes, len: usize) -> Result<Bytes, ZmtpError> {
    if len <= body.len() { Ok(body.split_to(len)) } else { Err(ZmtpError::Protocol("command")) }
}

/// What has come whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A message's frames.
    Message(Vec<Bytes>),
    /// A command's body.
    Command(Bytes),
}

/// Puts messages together from bytes, however these are cut.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pub(super) bytes: BytesMut,
    frames: Vec<Bytes>,
    /// Bytes of those frames.
    held: usize,
}

impl Assembler {
    /// The next message or command, when it has come whole.
    pub(super) fn next(&mut self) -> Result<Option<Item>, ZmtpError> {
        while let Some((flags, body)) = self.frame()? {
            if flags & COMMAND != 0 {
                return Ok(Some(Item::Command(body)));
            }
            self.held += body.len();
            self.frames.push(body);
            if flags & MORE == 0 {
                self.held = 0;
                return Ok(Some(Item::Message(std::mem::take(&mut self.frames))));
            }
            if self.frames.len() >= MAX_FRAMES {
                return Err(ZmtpError::TooLong);
            }
        }
        Ok(None)
    }

    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, ZmtpError> {
        let Some((flags, rest)) = self.bytes.split_first() else { return Ok(None) };
        let flags = *flags;
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(ZmtpError::Protocol("frame"));
        }
        let (len, head) = if flags & LONG == 0 {
            let Some(len) = rest.first() else { return Ok(None) };
            (u64::from(*len), 2)
        } else {
            let Some((len, _)) = rest.split_first_chunk() else { return Ok(None) };
            (u64::from_be_bytes(*len), 9)
        };
        let most = if flags & COMMAND != 0 { MAX_COMMAND } else { MAX_MESSAGE - self.held };
        let len = usize::try_from(len).ok().filter(|len| *len <= most).ok_or(ZmtpError::TooLong)?;
        if self.bytes.len() < head + len {
            return Ok(None);
        }
        self.bytes.advance(head);
        Ok(Some((flags, self.bytes.split_to(len).freeze())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8], cut: usize) -> Result<Vec<Item>, ZmtpError> {
        let mut assembler = Assembler::default();
        let mut items = Vec::new();
        for piece in bytes.chunks(cut) {
            assembler.bytes.extend_from_slice(piece);
            while let Some(item) = assembler.next()? {
                items.push(item);
            }
        }
        Ok(items)
    }

    #[test]
    fn the_greeting_is_that_of_a_client_without_encryption() {
        assert!(check_greeting(&GREETING).is_ok());
        assert_eq!(&GREETING[..16], b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL");
        for (at, byte) in [(0, 0), (9, 0), (10, 2), (12, b'P'), (17, b'X')] {
            let mut other = GREETING;
            other[at] = byte;
            assert!(check_greeting(&other).is_err(), "{at}");
        }
        let mut newer = GREETING;
        newer[11] = 1;
        assert!(check_greeting(&newer).is_ok());
    }

    #[test]
    fn commands_are_read() {
        let body = |bytes: Vec<u8>| Bytes::from(bytes).slice(2..);
        assert_eq!(command(body(ready("PUB"))).unwrap(), Command::Ready("PUB".into()));
        let ping = command(Bytes::from_static(b"\x04PING\0\x01ab")).unwrap();
        assert_eq!(ping, Command::Ping(Bytes::from_static(b"ab")));
        assert_eq!(command(Bytes::from_static(b"\x05ERROR\x02no")).unwrap(), Command::Error("no".into()));
        assert_eq!(command(Bytes::from_static(b"\x04WHAT")).unwrap(), Command::Other);
        assert!(command(Bytes::from_static(b"\x09WHAT")).is_err());
    }

    #[test]
    fn what_is_too_long_is_refused_before_it_comes() {
        let mut huge = vec![LONG];
        huge.extend_from_slice(&(u64::MAX).to_be_bytes());
        assert!(matches!(whole(&huge, 100), Err(ZmtpError::TooLong)));
        let many = message(&[b"".as_slice(); MAX_FRAMES + 1]);
        assert!(matches!(whole(&many, 100), Err(ZmtpError::TooLong)));
        let half = vec![0; MAX_MESSAGE / 2 + 1];
        assert!(matches!(whole(&message(&[&half, &half]), 1 << 20), Err(ZmtpError::TooLong)));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..5),
            cut in 1_usize..300,
        ) {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let bytes = [message(&parts), pong(b"x"), message(&parts)].concat();
            let items = whole(&bytes, cut).unwrap();
            let expected = Item::Message(parts.iter().map(|part| Bytes::copy_from_slice(part)).collect());
            prop_assert_eq!(items.len(), 3);
            prop_assert_eq!(&items[0], &expected);
            prop_assert_eq!(&items[2], &expected);
        }

        #[test]
        fn any_bytes_are_messages_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            cut in 1_usize..100,
        ) {
            for item in whole(&bytes, cut).unwrap_or_default() {
                if let Item::Command(body) = item {
                    let _ = command(body);
                }
            }
        }
    }
}
