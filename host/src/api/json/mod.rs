//! A scanner over JSON text that hands out slices instead of building values.
//!
//! It accepts exactly RFC 8259 (no trailing commas, no raw control characters in strings), to a nesting of
//! [`MAX_DEPTH`], and does not recurse. Lone surrogates are accepted in escapes, as the parsers of the
//! engines do. UTF-8 is checked once, when a scanner is made. A value is skipped at memory speed: a proxy
//! looks at a few members and copies one of them.

mod text;

pub(in crate::api) use text::Text;
use text::plain;

/// The deepest nesting that one value may have.
pub(in crate::api) const MAX_DEPTH: usize = 512;

/// Where and why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) struct Fault {
    /// Byte offset of what was not expected.
    pub at: usize,
    /// What was expected, or what is wrong.
    pub why: &'static str,
}

impl Fault {
    /// Line and column, both from one; the column counts characters.
    pub(in crate::api) fn place(self, text: &[u8]) -> (usize, usize) {
        let before = text.get(..self.at).unwrap_or(text);
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let last = before.get(start..).unwrap_or_default();
        // Continuation bytes do not begin a character.
        let column = last.iter().filter(|byte| **byte & 0xC0 != 0x80).count() + 1;
        (line, column)
    }
}

/// A value and where it stands; containers are known to be well formed.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::api) enum Value<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(&'a [u8]),
    Text(Text<'a>),
    Array(&'a [u8]),
    Object(&'a [u8]),
}

impl<'a> Value<'a> {
    pub(in crate::api) fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    pub(in crate::api) fn text(self) -> Option<Text<'a>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A whole number that is not negative, cut off at `u32::MAX`; `16.0` and `2e3` are whole.
    pub(in crate::api) fn count(self) -> Option<u32> {
        let Self::Number(digits) = self else { return None };
        let digits = std::str::from_utf8(digits).ok()?;
        if let Ok(value) = digits.parse::<u64>() {
            return Some(u32::try_from(value).unwrap_or(u32::MAX));
        }
        let value = digits.parse::<f64>().ok().filter(|value| *value >= 0.0 && value.fract() == 0.0)?;
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, not negative, and `as` cuts off at the maximum"
        )]
        Some(value as u32)
    }
}

/// A place in a JSON text.
#[derive(Debug, Clone)]
pub(in crate::api) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    /// Where the last key began.
    key: usize,
}

impl<'a> Scanner<'a> {
    /// A scanner at the beginning of `text`, which has to be UTF-8.
    pub(in crate::api) fn new(text: &'a [u8]) -> Result<Self, Fault> {
        match std::str::from_utf8(text) {
            Ok(_) => Ok(Self { text, at: 0, key: 0 }),
            Err(error) => Err(Fault { at: error.valid_up_to(), why: "not UTF-8" }),
        }
    }

    /// A scanner over a slice that another one has passed, or that may hold anything but is only searched.
    pub(in crate::api) fn within(text: &'a [u8]) -> Self {
        Self { text, at: 0, key: 0 }
    }

    /// The offset of the next byte.
    pub(in crate::api) fn at(&self) -> usize {
        self.at
    }

    /// The offset of the opening quote of the key that was taken last.
    pub(in crate::api) fn key_start(&self) -> usize {
        self.key
    }

    /// The bytes from `start` to here.
    pub(in crate::api) fn since(&self, start: usize) -> &'a [u8] {
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// How many bytes are left.
    pub(in crate::api) fn left(&self) -> usize {
        self.text.len().saturating_sub(self.at)
    }

    /// The first byte of what comes next, after white space.
    pub(in crate::api) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn fault(&self, why: &'static str) -> Fault {
        let why = if self.at >= self.text.len() { "the text ends in the middle of a value" } else { why };
        Fault { at: self.at.min(self.text.len()), why }
    }

    fn expect(&mut self, byte: u8, why: &'static str) -> Result<(), Fault> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.fault(why))
    }

    /// Nothing but white space may follow.
    pub(in crate::api) fn end(&mut self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Fault { at: self.at, why: "more text after the value" }),
        }
    }

    /// Walks an object. `member` gets each key and has to take exactly the value that follows.
    pub(in crate::api) fn object<E: From<Fault>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Text<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{', "expected `{`")?;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.peek();
            member(self, key)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.fault("expected `,` or `}`").into()),
            }
            self.peek();
        }
    }

    /// Walks an array. `item` has to take exactly one value.
    pub(in crate::api) fn array<E: From<Fault>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[', "expected `[`")?;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.fault("expected `,` or `]`").into()),
            }
        }
    }

    /// Takes one value.
    pub(in crate::api) fn value(&mut self) -> Result<Value<'a>, Fault> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(open @ (b'{' | b'[')) => {
                self.container()?;
                let raw = self.since(start);
                Ok(if open == b'{' { Value::Object(raw) } else { Value::Array(raw) })
            }
            _ => self.scalar(),
        }
    }

    fn key(&mut self) -> Result<Text<'a>, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a key in quotes"));
        }
        self.key = self.at;
        let key = self.string()?;
        self.expect(b':', "expected `:`")?;
        Ok(key)
    }

    fn scalar(&mut self) -> Result<Value<'a>, Fault> {
        match self.text.get(self.at) {
            Some(b't') => self.word(b"true", Value::Bool(true)),
            Some(b'f') => self.word(b"false", Value::Bool(false)),
            Some(b'n') => self.word(b"null", Value::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.fault("expected a value")),
        }
    }

    fn word(&mut self, word: &'static [u8], value: Value<'a>) -> Result<Value<'a>, Fault> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.fault("expected a value"))
    }

    /// Takes a whole number of at most nine digits if nothing else comes next; most tokens are one.
    pub(in crate::api) fn small(&mut self) -> Option<u32> {
        self.peek();
        let digits = self.text.get(self.at..)?;
        let mut value = 0;
        for (count, byte) in digits.iter().enumerate().take(10) {
            match byte {
                b'0'..=b'9' if count < 9 => value = value * 10 + u32::from(byte - b'0'),
                b',' | b']' if count > 0 && (count == 1 || digits.first() != Some(&b'0')) => {
                    self.at += count;
                    return Some(value);
                }
                _ => return None,
            }
        }
        None
    }

    fn number(&mut self) -> Result<Value<'a>, Fault> {
        let start = self.at;
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        if matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
            return Err(self.fault("a number with a leading zero"));
        }
        Ok(Value::Number(self.since(start)))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    /// Takes a string, whose opening quote comes next.
    #[inline]
    fn string(&mut self) -> Result<Text<'a>, Fault> {
        let text = self.text;
        let start = self.at + 1;
        let (mut at, mut escaped) = (start, false);
        loop {
            at += plain(text.get(at..).unwrap_or_default());
            match text.get(at) {
                Some(b'"') => {
                    let raw = text.get(start..at).unwrap_or_default();
                    self.at = at + 1;
                    return Ok(Text { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    match text.get(at + 1) {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => at += 2,
                        Some(b'u') => at = self.unicode(at + 2)?,
                        _ => return Err(self.fault_at(at + 1, "an unknown escape in a string")),
                    }
                }
                _ => return Err(self.fault_at(at, "a control character in a string")),
            }
        }
    }

    /// The offset after the four digits at `at`.
    fn unicode(&mut self, at: usize) -> Result<usize, Fault> {
        let digits = self.text.get(at..).unwrap_or_default();
        match digits.iter().take(4).take_while(|digit| digit.is_ascii_hexdigit()).count() {
            4 => Ok(at + 4),
            good => Err(self.fault_at(at + good, "expected four hexadecimal digits")),
        }
    }

    #[cold]
    fn fault_at(&mut self, at: usize, why: &'static str) -> Fault {
        self.at = at;
        self.fault(why)
    }

    /// Takes an object or an array, whose opening bracket comes next.
    fn container(&mut self) -> Result<(), Fault> {
        let mut open = Brackets::default();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(bracket @ (b'{' | b'[')) => {
                    let object = bracket == b'{';
                    if !open.push(object) {
                        return Err(self.fault("nested too deeply"));
                    }
                    self.at += 1;
                    if self.peek() != Some(if object { b'}' } else { b']' }) {
                        if object {
                            self.key()?;
                        }
                        continue;
                    }
                }
                _ => {
                    self.scalar()?;
                }
            }
            // A value is complete, or an empty container is about to close.
            loop {
                let Some(object) = open.top() else { return Ok(()) };
                match (self.peek(), object) {
                    (Some(b','), _) => {
                        self.at += 1;
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, true) => return Err(self.fault("expected `,` or `}`")),
                    (_, false) => return Err(self.fault("expected `,` or `]`")),
                }
            }
        }
    }
}

/// The brackets that are open: a bit each, set for an object.
#[derive(Default)]
struct Brackets {
    bits: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Brackets {
    fn push(&mut self, object: bool) -> bool {
        let Some(word) = self.bits.get_mut(self.depth / 64) else { return false };
        let bit = 1 << (self.depth % 64);
        *word = if object { *word | bit } else { *word & !bit };
        self.depth += 1;
        true
    }

    fn top(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        self.bits.get(last / 64).map(|word| word >> (last % 64) & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests;
