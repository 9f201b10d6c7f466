//! What the two processes say to each other: lines, and sockets with the first of them.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Sockets that are handed over at most.
const MAX_SOCKETS: usize = 8;
/// Bytes of a line at most.
const MAX_LINE: usize = 16 * 1024;

/// One end.
#[derive(Debug)]
pub(super) struct Wire(UnixStream);

impl Wire {
    pub(super) const fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Sends sockets, each with the address that it is configured by.
    pub(super) fn give(&self, sockets: &[(&str, BorrowedFd<'_>)]) -> io::Result<()> {
        let names: Vec<_> = sockets.iter().map(|(name, _)| *name).collect();
        let fds: Vec<_> = sockets.iter().map(|(_, fd)| *fd).collect();
        let line = format!("{}\n", names.join(" "));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("too many sockets"));
        }
        let sent = sendmsg(&self.0, &[IoSlice::new(line.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
        if sent == line.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Receives them.
    pub(super) fn take(&self, patience: Duration) -> io::Result<Vec<(String, OwnedFd)>> {
        self.0.set_read_timeout(Some(patience))?;
        let mut line = vec![0; MAX_LINE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut line)], &mut ancillary, flags)?;
        let fds = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let fds: Vec<OwnedFd> = fds.flatten().collect();
        let line = line.get(..received.bytes).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(io::Error::other)?;
        Ok(line.split_whitespace().map(str::to_owned).zip(fds).collect())
    }

    pub(super) fn say(&self, line: &str) -> io::Result<()> {
        let line = line.replace('\n', "; ");
        (&self.0).write_all(format!("{line}\n").as_bytes())
    }

    /// The next line.
    pub(super) fn hear(&self, patience: Duration) -> io::Result<String> {
        self.0.set_read_timeout(Some(patience))?;
        let (mut line, mut byte) = (Vec::new(), [0]);
        // A byte at a time: what follows the line is not to be read yet, and there is not much of it.
        while line.len() < MAX_LINE && (&self.0).read(&mut byte)? > 0 {
            match byte {
                [b'\n'] => return String::from_utf8(line).map_err(io::Error::other),
                [byte] => line.push(byte),
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn sockets_and_lines_arrive() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (Wire::new(one), Wire::new(other));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        one.give(&[("127.0.0.1:0", listener.as_fd())]).unwrap();
        let mut taken = other.take(Duration::from_secs(5)).unwrap();
        drop(listener);
        let (name, fd) = taken.pop().unwrap();
        assert_eq!(name, "127.0.0.1:0");
        let listener = TcpListener::from(fd);
        let _client = TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
        other.say("failed: a\nb").unwrap();
        assert_eq!(one.hear(Duration::from_secs(5)).unwrap(), "failed: a; b");
        drop(other);
        assert!(one.hear(Duration::from_secs(5)).is_err());
    }
}
