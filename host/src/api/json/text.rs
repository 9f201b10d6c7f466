//! Strings as they stand in JSON, decoded only where somebody wants them.

use std::borrow::Cow;

/// A string: what stands between its quotes.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Text<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

impl<'a> Text<'a> {
    pub(in crate::api) fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// The string's bytes; a lone surrogate becomes the three bytes that UTF-8 would have for it.
    pub(in crate::api) fn bytes(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut out = Vec::with_capacity(self.raw.len());
        self.append_to(&mut out);
        Cow::Owned(out)
    }

    /// The string; a lone surrogate becomes U+FFFD.
    pub(in crate::api) fn to_str(self) -> Cow<'a, str> {
        match self.bytes() {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Appends [`Self::bytes`].
    pub(in crate::api) fn append_to(self, out: &mut Vec<u8>) {
        if !self.escaped {
            out.extend_from_slice(self.raw);
            return;
        }
        out.reserve(self.raw.len());
        let mut rest = self.raw;
        loop {
            // Within a string that was scanned, what is not plain is an escape.
            let (before, escape) = rest.split_at(plain(rest));
            out.extend_from_slice(before);
            let (byte, after) = match escape {
                [_, b'n', after @ ..] => (b'\n', after),
                [_, byte @ (b'"' | b'\\' | b'/'), after @ ..] => (*byte, after),
                [] => return,
                _ => {
                    rest = unescape(escape, out);
                    continue;
                }
            };
            out.push(byte);
            rest = after;
        }
    }
}

/// Decodes the escape that `text` begins with and returns what follows it.
fn unescape<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let after = |count: usize| text.get(count..).unwrap_or_default();
    let byte = match text.get(1) {
        Some(b'u') => {
            let unit = |at: usize| {
                text.get(at..at + 2).filter(|mark| *mark == b"\\u")?;
                hex4(text.get(at + 2..at + 6)?)
            };
            let first = unit(0).unwrap_or(0xFFFD);
            if (0xD800..0xDC00).contains(&first)
                && let Some(second @ 0xDC00..0xE000) = unit(6)
            {
                push_code(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), out);
                return after(12);
            }
            push_code(first, out);
            return after(6);
        }
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0C,
        Some(other) => *other,
        None => return &[],
    };
    out.push(byte);
    after(2)
}

fn hex4(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// Appends a code point, surrogates included.
fn push_code(code: u32, out: &mut Vec<u8>) {
    if let Some(character) = char::from_u32(code) {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        let bits = |shift: u32| u8::try_from(code >> shift & 0x3F).unwrap_or_default() | 0x80;
        out.extend_from_slice(&[0xED, bits(6), bits(0)]);
    }
}

/// How many bytes at the beginning of `text` are neither a quote, a backslash nor a control character.
#[inline]
pub(super) fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, rest) = text.as_chunks::<8>();
    for (number, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = control | zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return number * 8 + usize::try_from(found.trailing_zeros() / 8).unwrap_or_default();
        }
    }
    let stop = rest.iter().position(|byte| *byte == b'"' || *byte == b'\\' || *byte < 0x20);
    words.len() * 8 + stop.unwrap_or(rest.len())
}
