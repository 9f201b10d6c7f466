//! The Prometheus text format, as far as it is wanted.
//!
//! A page may come in pieces. Lines are found by `memchr`; of a line whose name nobody wants nothing
//! but the name is looked at. What does not fit the format is passed over, never an error: one broken
//! line must not cost the others.

use std::borrow::Cow;

use super::{Page, Wanted};

/// A longer line is passed over: real ones have some hundred bytes.
const LINE: usize = 1 << 16;

/// One line of a page.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The labels of the series.
    pub labels: Labels<'a>,
    /// Its value.
    pub value: f64,
}

/// The text between the braces; iterating gives key and value.
#[derive(Debug, Clone, Copy)]
pub struct Labels<'a>(&'a [u8]);

impl<'a> Labels<'a> {
    /// The value of this label.
    #[must_use]
    pub fn get(mut self, key: &str) -> Option<Cow<'a, [u8]>> {
        self.find(|(known, _)| *known == key.as_bytes()).map(|(_, value)| unescape(value))
    }

    /// The value of this label as a number.
    #[must_use]
    pub fn number(self, key: &str) -> Option<f64> {
        std::str::from_utf8(&self.get(key)?).ok()?.parse().ok()
    }

    /// Whether all of these are among the labels.
    #[must_use]
    pub fn carry(self, labels: &[(Box<str>, Box<str>)]) -> bool {
        labels.iter().all(|(key, value)| self.get(key).is_some_and(|known| *known == *value.as_bytes()))
    }
}

impl<'a> Iterator for Labels<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let equals = memchr::memchr(b'=', self.0)?;
        let key = self.0.get(..equals)?.trim_ascii();
        let quoted = self.0.get(equals + 1..)?.trim_ascii_start().strip_prefix(b"\"")?;
        let end = closing_quote(quoted)?;
        let rest = quoted.get(end + 1..)?.trim_ascii_start();
        self.0 = rest.strip_prefix(b",").unwrap_or(rest);
        Some((key, quoted.get(..end)?))
    }
}

/// Where the quote is that is not behind a backslash.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        from = at + 2;
    }
}

fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(other) => other,
                None => b'\\',
            },
            other => other,
        });
    }
    Cow::Owned(plain)
}

/// Reads a page into a [`Page`], piece by piece.
#[derive(Debug)]
pub struct Parser<'w> {
    wanted: &'w Wanted,
    page: Page,
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// Whether that line is too long and is being passed over.
    over: bool,
}

impl<'w> Parser<'w> {
    /// A parser that reads what is wanted.
    #[must_use]
    pub fn new(wanted: &'w Wanted) -> Self {
        Self { wanted, page: wanted.page(), begun: Vec::new(), over: false }
    }

    /// The next piece of the page.
    pub fn feed(&mut self, mut piece: &[u8]) {
        if self.over || !self.begun.is_empty() {
            let Some(end) = memchr::memchr(b'\n', piece) else {
                self.begin(piece);
                return;
            };
            let (line, rest) = piece.split_at(end);
            self.begin(line);
            if !std::mem::take(&mut self.over) {
                let line = std::mem::take(&mut self.begun);
                self.line(&line);
                self.begun = line;
                self.begun.clear();
            }
            piece = rest.get(1..).unwrap_or_default();
        }
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (line, rest) = piece.split_at(end);
            self.line(line);
            piece = rest.get(1..).unwrap_or_default();
        }
        self.begin(piece);
    }

    /// The page's end.
    #[must_use]
    pub fn finish(mut self) -> Page {
        let line = std::mem::take(&mut self.begun);
        self.line(&line);
        self.page
    }

    fn begin(&mut self, part: &[u8]) {
        if self.over || self.begun.len() + part.len() > LINE {
            self.over = true;
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.len() > LINE || matches!(line.first(), None | Some(b'#')) {
            return;
        }
        let Some(end) = memchr::memchr2(b'{', b' ', line) else { return };
        let (name, rest) = line.split_at(end);
        if let Some(uses) = self.wanted.uses(name)
            && let Some(sample) = sample(rest)
        {
            self.page.take(uses, &self.wanted.series, sample);
        }
    }
}

/// What follows the name: labels, value, and perhaps a time that nobody needs.
fn sample(rest: &[u8]) -> Option<Sample<'_>> {
    let (labels, rest) = match rest.strip_prefix(b"{") {
        None => (&[][..], rest),
        Some(inner) => {
            let mut from = 0;
            let end = loop {
                let at = from + memchr::memchr2(b'"', b'}', inner.get(from..)?)?;
                if inner.get(at) == Some(&b'}') {
                    break at;
                }
                from = at + 1 + closing_quote(inner.get(at + 1..)?)? + 1;
            };
            (inner.get(..end)?, inner.get(end + 1..)?)
        }
    };
    let rest = rest.trim_ascii();
    let value = rest.split(u8::is_ascii_whitespace).next()?;
    Some(Sample { labels: Labels(labels), value: std::str::from_utf8(value).ok()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_every_oddity_are_read() {
        let line = br#"{ a = "1" ,b="x,y}\"\\\n", c="" } +1.5e3 1700000000"#;
        let sample = sample(line).unwrap();
        assert!((sample.value - 1500.0).abs() < 1e-9);
        assert_eq!(sample.labels.count(), 3);
        assert_eq!(sample.labels.number("a"), Some(1.0));
        assert_eq!(sample.labels.get("b").as_deref(), Some(&b"x,y}\"\\\n"[..]));
        assert!(sample.labels.carry(&[("c".into(), "".into())]));
        assert!(!sample.labels.carry(&[("d".into(), "".into())]));
    }

    #[test]
    fn values_are_read_as_the_format_writes_them() {
        for (text, value) in [(" 0", 0.0), ("{} 1e-05", 1e-5), (" +Inf", f64::INFINITY), ("\t-2", -2.0)] {
            assert!(sample(text.as_bytes()).unwrap().value.total_cmp(&value).is_eq(), "{text}");
        }
        assert!(sample(b" NaN").unwrap().value.is_nan());
        for broken in ["", "{", "{a=\"", "{a=\"\\", "{} ", " x", "{a=\"b\"1"] {
            assert!(sample(broken.as_bytes()).is_none(), "{broken}");
        }
    }
}
