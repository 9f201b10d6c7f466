//! Lines of a stream and windows of an answer, bounded and without regard to how they are cut.

use super::event::{Event, Name};
use super::tokens::Tokens;

/// How much of a line's or an answer's beginning is kept.
pub(super) const HEAD: usize = 64 * 1024;

/// How much of its end is kept besides.
pub(super) const TAIL: usize = 8 * 1024;

/// The beginning and the end of a text that comes in pieces.
#[derive(Debug, Default)]
pub(super) struct Window {
    head: Vec<u8>,
    tail: Vec<u8>,
    len: usize,
}

impl Window {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        self.len = self.len.saturating_add(bytes.len());
        let room = HEAD - self.head.len().min(HEAD);
        if room > 0 {
            let (first, rest) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(first);
            bytes = rest;
        }
        if bytes.len() >= TAIL {
            self.tail.clear();
        } else if self.tail.len() + bytes.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len().saturating_sub(TAIL));
        }
        let start = bytes.len().saturating_sub(TAIL);
        self.tail.extend_from_slice(bytes.get(start..).unwrap_or_default());
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn clear(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.len = 0;
    }

    /// All of it, where that was kept.
    fn whole(&self) -> Option<&[u8]> {
        (self.len <= HEAD).then_some(self.head.as_slice())
    }

    /// The last bytes, as many as are kept of every long text.
    fn end(&self) -> Vec<u8> {
        let tail = self.tail.get(self.tail.len().saturating_sub(TAIL)..).unwrap_or_default();
        let start = self.head.len().saturating_sub(TAIL - tail.len());
        [self.head.get(start..).unwrap_or_default(), tail].concat()
    }

    /// The usage of an answer that is one JSON value.
    pub(super) fn answer(&self) -> Tokens {
        if let Some(whole) = self.whole() {
            let tokens = Event::read(whole, Name::None).tokens;
            if tokens != Tokens::default() {
                return tokens;
            }
        }
        let mut tokens = Tokens::search(&self.head);
        tokens.update(Tokens::search(&self.end()));
        tokens
    }
}

/// The lines of a stream of server-sent events.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The line that has begun in an earlier piece.
    line: Window,
    name: Name,
    /// Whether the last line was not empty.
    within: bool,
}

impl Lines {
    /// Takes a piece and shows the events that it completes.
    pub(super) fn feed(&mut self, chunk: &[u8], mut found: impl FnMut(Event)) {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            let line = chunk.get(start..end).unwrap_or_default();
            start = end + 1;
            if self.line.len() == 0 && line.len() <= HEAD {
                self.line(line, &mut found);
            } else {
                self.line.push(line);
                self.end(&mut found);
            }
        }
        let rest = chunk.get(start..).unwrap_or_default();
        if !rest.is_empty() {
            self.line.push(rest);
        }
    }

    /// Ends the line that has begun.
    pub(super) fn end(&mut self, mut found: impl FnMut(Event)) {
        let mut window = std::mem::take(&mut self.line);
        match window.whole() {
            Some(line) => self.line(line, &mut found),
            None => {
                self.within = true;
                if window.head.starts_with(b"data:") {
                    found(Event::cut(strip(&window.head, b"data:"), &window.end(), self.name));
                }
            }
        }
        window.clear();
        self.line = window;
    }

    pub(super) fn between_events(&self) -> bool {
        self.line.len() == 0 && !self.within
    }

    fn line(&mut self, line: &[u8], found: &mut impl FnMut(Event)) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.within = !line.is_empty();
        match line.first() {
            None => self.name = Name::None,
            Some(b'd') if line.starts_with(b"data:") => found(Event::read(strip(line, b"data:"), self.name)),
            Some(b'e') if line.starts_with(b"event:") => self.name = Name::of(strip(line, b"event:")),
            _ => {}
        }
    }
}

/// What follows a field's name, without the one space that may stand there.
fn strip<'a>(line: &'a [u8], field: &[u8]) -> &'a [u8] {
    let value = line.strip_prefix(field).unwrap_or(line);
    value.strip_prefix(b" ").unwrap_or(value)
}
