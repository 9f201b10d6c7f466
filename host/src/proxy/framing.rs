//! How the heads of messages frame their bodies, seen in a client's bytes as they come.
//!
//! hyper takes a message that gives both a length and a transfer encoding by its encoding, and does not say that
//! there was a length. Whoever stands before the proxy may have gone by the length and taken the rest for another
//! message, so such a message is refused; for that the lines of heads are looked at on their way to hyper, and
//! bodies are counted, to know where the next head begins. Where that cannot be known (a client that sends its next
//! request before the answer), the next head is [`Head::Unseen`].

use memchr::memchr_iter;

/// Longest beginning of a line that is looked at: a name, and the digits of any length.
const LOOKED_AT: usize = 48;
/// The end of a body in chunks.
const CHUNKS_END: [u8; 4] = *b"\r\n\r\n";

/// How a head frames its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// It did not begin where it could be seen, or has not ended yet.
    Unseen,
    /// By one length, by an encoding, or not at all.
    Plain,
    /// By a length and an encoding.
    LengthAndEncoding,
    /// By more than one length.
    Lengths,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before a head or within it.
    Head,
    /// After a head.
    Body,
    /// Where it is not known what the bytes are.
    Lost,
}

/// Follows the messages of one connection.
#[derive(Debug)]
pub(super) struct Framing {
    place: Place,
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    /// Whether the head's first line has come: empty lines may stand before it.
    begun: bool,
    lengths: u8,
    /// The length that was given, where it can be read.
    length: Option<u64>,
    encoded: bool,
    /// Bytes after the head.
    after: u64,
    /// The last of them.
    last: [u8; 4],
}

impl Framing {
    /// At the beginning of a connection.
    pub(super) const fn new() -> Self {
        Self::at(Place::Head)
    }

    const fn at(place: Place) -> Self {
        let line = Vec::new();
        Self { place, line, begun: false, lengths: 0, length: None, encoded: false, after: 0, last: [0; 4] }
    }

    /// Bytes have come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let body = if self.place == Place::Head { self.head(bytes) } else { bytes };
        if self.place != Place::Body {
            return;
        }
        self.after += body.len() as u64;
        // Only the end of a body in chunks is looked for.
        if self.encoded {
            for byte in body.iter().skip(body.len().saturating_sub(self.last.len())) {
                self.last = [self.last[1], self.last[2], self.last[3], *byte];
            }
        }
    }

    /// The message and its answer are over.
    pub(super) fn next(&mut self) {
        let whole = match (self.place, self.encoded, self.lengths) {
            (Place::Head | Place::Lost, ..) => false,
            (Place::Body, true, _) => self.last == CHUNKS_END,
            (Place::Body, false, 0) => self.after == 0,
            (Place::Body, false, _) => self.length == Some(self.after),
        };
        *self = Self::at(if whole { Place::Head } else { Place::Lost });
    }

    /// The head that has come last.
    pub(super) fn seen(&self) -> Head {
        match (self.place, self.encoded, self.lengths) {
            (Place::Head | Place::Lost, ..) => Head::Unseen,
            (Place::Body, true, 1..) => Head::LengthAndEncoding,
            (Place::Body, _, 2..) => Head::Lengths,
            (Place::Body, ..) => Head::Plain,
        }
    }

    /// Bytes of a head, up to its end: what comes after it.
    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut from = 0;
        for end in memchr_iter(b'\n', bytes) {
            let line = bytes.get(from..end).unwrap_or_default();
            from = end + 1;
            let ended = if self.line.is_empty() {
                self.line(line)
            } else {
                self.keep(line);
                let kept = std::mem::take(&mut self.line);
                self.line(&kept)
            };
            if ended {
                self.place = Place::Body;
                return bytes.get(from..).unwrap_or_default();
            }
        }
        self.keep(bytes.get(from..).unwrap_or_default());
        &[]
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = LOOKED_AT.saturating_sub(self.line.len());
        self.line.extend(bytes.iter().take(room));
    }

    /// Whether a line without its end, of which at least the beginning is here, ends the head.
    fn line(&mut self, line: &[u8]) -> bool {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.begun;
        }
        self.begun = true;
        if let Some(value) = value_of(line, b"content-length:") {
            self.lengths = self.lengths.saturating_add(1);
            self.length = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
        } else if value_of(line, b"transfer-encoding:").is_some() {
            self.encoded = true;
        }
        false
    }
}

/// What stands after a name and its colon.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fed(pieces: &[&[u8]]) -> Framing {
        let mut framing = Framing::new();
        for piece in pieces {
            framing.feed(piece);
        }
        framing
    }

    const BOTH: &[u8] =
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTRANSFER-encoding: chunked\r\n\r\n0\r\n\r\n";

    #[test]
    fn a_head_is_seen_as_it_frames_its_body() {
        let heads: [(&[u8], Head); 6] = [
            (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", Head::Plain),
            (b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello", Head::Plain),
            (b"\r\n\r\nPOST / HTTP/1.1\ntransfer-encoding: chunked\n\n0\r\n\r\n", Head::Plain),
            (BOTH, Head::LengthAndEncoding),
            (b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n", Head::Lengths),
            (b"POST / HTTP/1.1\r\ncontent-length: 5\r\n", Head::Unseen),
        ];
        for (bytes, seen) in heads {
            assert_eq!(fed(&[bytes]).seen(), seen, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn the_next_head_is_seen_where_the_body_before_it_has_ended() {
        let bodies: [(&[u8], Head); 5] = [
            (b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello", Head::LengthAndEncoding),
            (b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloPOST / HTTP/1.1\r\n", Head::Unseen),
            (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Head::LengthAndEncoding),
            (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nPOST / HT", Head::Unseen),
            (b"GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 5\r\n", Head::Unseen),
        ];
        for (before, seen) in bodies {
            let mut framing = fed(&[before]);
            framing.next();
            framing.feed(BOTH);
            assert_eq!(framing.seen(), seen, "{}", before.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(cuts in prop::collection::vec(0..BOTH.len(), 0..6)) {
            let mut framing = Framing::new();
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts.into_iter().chain([BOTH.len()]) {
                framing.feed(&BOTH[from..cut]);
                from = cut;
            }
            prop_assert_eq!(framing.seen(), Head::LengthAndEncoding);
            framing.next();
            framing.feed(BOTH);
            prop_assert_eq!(framing.seen(), Head::LengthAndEncoding);
        }
    }
}
