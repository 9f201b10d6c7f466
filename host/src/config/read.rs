//! Typed reading of a TOML table against its [`Section`]: what is wrong is noted, never returned.
//!
//! A value that is wrong or missing reads as the type's default, so that reading goes on and finds the
//! next error; nobody sees such a value, because the whole is refused when anything was noted.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, nearest};
use super::keys::{Key, Kind, Otherwise, ROOT, Section};

/// A file's text, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Source<'a> {
    name: &'a str,
    text: &'a str,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, errors: RefCell::default() }
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }

    pub(super) fn note(
        &self,
        at: Option<&Range<usize>>,
        key: &str,
        message: impl Into<Box<str>>,
        nearest: Option<&str>,
    ) {
        let line = at.map(|span| {
            let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
            memchr::memchr_iter(b'\n', before).count() + 1
        });
        self.errors.borrow_mut().push(ConfigError {
            source: self.name.into(),
            line,
            key: key.into(),
            message: message.into(),
            nearest: nearest.map(Into::into),
        });
    }
}

/// A value, and where it stands.
#[derive(Debug)]
pub(super) struct Item<'a, 'v> {
    source: &'a Source<'a>,
    path: String,
    span: Range<usize>,
    kind: Kind,
    value: &'v DeValue<'v>,
}

impl<'a, 'v> Item<'a, 'v> {
    pub(super) fn error(&self, message: impl Into<Box<str>>) {
        self.source.note(Some(&self.span), &self.path, message, None);
    }

    fn wrong(&self, expected: &str) {
        self.error(format!("expected {expected}, found {}", found(self.value)));
    }

    pub(super) fn value(&self) -> &'v DeValue<'v> {
        self.value
    }

    pub(super) fn text(&self) -> Option<&'v str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong("text");
        }
        text
    }

    fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        if flag.is_none() {
            self.wrong("true or false");
        }
        flag
    }

    fn within(&self, min: u64, max: u64, value: Option<u64>) -> Option<u64> {
        let value = value.filter(|value| (min..=max).contains(value));
        if value.is_none() {
            let expected = match self.kind {
                Kind::Bytes(..) => {
                    format!("{min} to {max} bytes (a whole number, or text such as \"64 MiB\")")
                }
                _ => format!("a whole number from {min} to {max}"),
            };
            self.wrong(&expected);
        }
        value
    }

    fn integer(&self) -> Option<u64> {
        let whole = integer(self.value).and_then(|value| u64::try_from(value).ok());
        match self.kind {
            Kind::Integer(min, max) => self.within(min, max, whole),
            Kind::Bytes(min, max) => self.within(min, max, whole.or_else(|| size(self.value.as_str()?))),
            _ => None,
        }
    }

    fn signed(&self) -> Option<i64> {
        let Kind::Signed(min, max) = self.kind else { return None };
        let value = integer(self.value).filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.wrong(&format!("a whole number from {min} to {max}"));
        }
        value
    }

    fn number(&self) -> Option<f32> {
        let Kind::Number(min, max) = self.kind else { return None };
        let value = match self.value {
            DeValue::Float(float) => float.as_str().replace('_', "").parse::<f64>().ok(),
            #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 it is out of bounds")]
            other => integer(other).map(|value| value as f64),
        };
        let value = value.filter(|value| (min..=max).contains(value));
        if value.is_none() {
            self.wrong(&format!("a number from {min} to {max}"));
        }
        #[expect(clippy::cast_possible_truncation, reason = "the bounds of every key are far below f32's")]
        value.map(|value| value as f32)
    }

    /// The word as a `T`, of those that the key allows.
    pub(super) fn word<T: for<'de> Deserialize<'de>>(&self) -> Option<T> {
        let (Kind::Word(words) | Kind::Words(words) | Kind::Mode(words, _)) = self.kind else { return None };
        let text = self.text()?;
        let known = words.contains(&text);
        let deserializer: StrDeserializer<'_, ValueError> = text.into_deserializer();
        let word = T::deserialize(deserializer).ok().filter(|_| known);
        if word.is_none() {
            let message = format!("`{text}` is none of {}", words.join(", "));
            self.source.note(Some(&self.span), &self.path, message, nearest(text, words.iter().copied()));
        }
        word
    }

    fn items<T>(&self, read: impl Fn(&Item<'a, 'v>) -> Option<T>) -> Option<Vec<T>> {
        let Some(array) = self.value.as_array() else {
            self.wrong("a list");
            return None;
        };
        let item = |(i, value): (usize, &'v Spanned<DeValue<'v>>)| Item {
            source: self.source,
            path: format!("{}[{i}]", self.path),
            span: value.span(),
            kind: self.kind,
            value: value.get_ref(),
        };
        Some(array.iter().enumerate().map(item).filter_map(|item| read(&item)).collect())
    }

    fn map(&self) -> Option<Vec<(Box<str>, Box<str>)>> {
        let Some(table) = self.value.as_table() else {
            self.wrong("a table");
            return None;
        };
        let mut pairs = Vec::new();
        for (key, value) in table {
            match value.get_ref().as_str() {
                Some(text) => pairs.push((key.get_ref().as_ref().into(), text.into())),
                None => {
                    let message = format!("expected text, found {}", found(value.get_ref()));
                    self.source.note(
                        Some(&value.span()),
                        &format!("{}.{}", self.path, key.get_ref()),
                        message,
                        None,
                    );
                }
            }
        }
        Some(pairs)
    }

    fn json(&self) -> Option<serde_json::Value> {
        if self.value.as_table().is_none() {
            self.wrong("a table");
            return None;
        }
        to_json(self.value).map_err(|problem| self.error(problem)).ok()
    }
}

/// A table that is read against its section.
#[derive(Debug)]
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    path: String,
    span: Range<usize>,
    section: &'static Section,
    values: Values<'a>,
}

#[derive(Debug)]
enum Values<'a> {
    /// The table is not there: everything has its default.
    None,
    /// An item that is just the value of the section's first key.
    First(&'a Spanned<DeValue<'a>>),
    Table(&'a DeTable<'a>),
}

impl<'a> Table<'a> {
    /// The whole file; notes the keys that `section` does not have.
    pub(super) fn root(
        source: &'a Source<'a>,
        values: &'a Spanned<DeTable<'a>>,
        section: &'static Section,
    ) -> Self {
        let span = values.span();
        Self::open(source, String::new(), span, section, values.get_ref())
    }

    fn open(
        source: &'a Source<'a>,
        path: String,
        span: Range<usize>,
        section: &'static Section,
        values: &'a DeTable<'a>,
    ) -> Self {
        let table = Self { source, path, span, section, values: Values::Table(values) };
        for key in values.keys() {
            let name = key.get_ref().as_ref();
            if section.key(name).is_none() {
                let near = nearest(name, section.keys.iter().map(|key| key.name));
                let message = match elsewhere(name, section) {
                    Some(title) if near.is_none() => format!("unknown key; it belongs in {title}"),
                    _ => "unknown key".to_owned(),
                };
                source.note(Some(&key.span()), &table.path_of(name), message, near);
            }
        }
        table
    }

    fn path_of(&self, name: &str) -> String {
        match (&*self.path, name) {
            ("", name) => name.to_owned(),
            (path, "") => path.to_owned(),
            (path, name) => format!("{path}.{name}"),
        }
    }

    fn find(&self, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        match self.values {
            Values::None => None,
            Values::First(value) => (self.section.keys.first()?.name == name).then_some(value),
            Values::Table(values) => values.get(name),
        }
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        let key = self.section.key(name);
        debug_assert!(key.is_some(), "{} has no key {name}", self.section.title);
        key
    }

    /// Notes an error at this key's value, or at the table when the key is not there.
    pub(super) fn error(&self, name: &str, message: impl Into<Box<str>>, nearest: Option<&str>) {
        let span = self.find(name).map_or_else(|| self.span.clone(), Spanned::span);
        self.source.note(Some(&span), &self.path_of(name), message, nearest);
    }

    /// Reads a key's value, or its default.
    pub(super) fn with<T>(&self, name: &str, read: impl FnOnce(&Item<'_, '_>) -> Option<T>) -> Option<T> {
        let key = self.key(name)?;
        let path = self.path_of(name);
        if let Some(value) = self.find(name) {
            return read(&Item {
                source: self.source,
                path,
                span: value.span(),
                kind: key.kind,
                value: value.get_ref(),
            });
        }
        match key.otherwise {
            Otherwise::Nothing => None,
            Otherwise::Required => {
                self.error(name, "is required", None);
                None
            }
            Otherwise::Is(text) => {
                let value = DeValue::parse(text).ok()?;
                let span = self.span.clone();
                read(&Item { source: self.source, path, span, kind: key.kind, value: value.get_ref() })
            }
        }
    }

    pub(super) fn text(&self, name: &str) -> Box<str> {
        self.with(name, |item| item.text().map(Into::into)).unwrap_or_default()
    }

    pub(super) fn text_option(&self, name: &str) -> Option<Box<str>> {
        self.with(name, |item| item.text().map(Into::into))
    }

    pub(super) fn texts(&self, name: &str) -> Vec<Box<str>> {
        self.with(name, |item| item.items(|item| item.text().map(Into::into))).unwrap_or_default()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.with(name, |item| item.flag()).unwrap_or_default()
    }

    pub(super) fn u32(&self, name: &str) -> u32 {
        self.u32_option(name).unwrap_or_default()
    }

    pub(super) fn u32_option(&self, name: &str) -> Option<u32> {
        self.with(name, |item| item.integer()).and_then(|value| u32::try_from(value).ok())
    }

    pub(super) fn i32(&self, name: &str) -> Option<i32> {
        self.with(name, |item| item.signed()).and_then(|value| i32::try_from(value).ok())
    }

    pub(super) fn usize(&self, name: &str) -> usize {
        self.with(name, |item| item.integer())
            .and_then(|value| usize::try_from(value).ok())
            .unwrap_or(usize::MAX)
    }

    pub(super) fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.with(name, |item| item.integer()).unwrap_or_default())
    }

    pub(super) fn millis_option(&self, name: &str) -> Option<Duration> {
        self.with(name, |item| item.integer()).map(Duration::from_millis)
    }

    pub(super) fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.with(name, |item| item.integer()).unwrap_or_default())
    }

    pub(super) fn number(&self, name: &str) -> Option<f32> {
        self.with(name, |item| item.number())
    }

    pub(super) fn word<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        self.with(name, |item| item.word())
    }

    pub(super) fn words<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Vec<T> {
        self.with(name, |item| item.items(|item| item.word())).unwrap_or_default()
    }

    pub(super) fn map(&self, name: &str) -> Vec<(Box<str>, Box<str>)> {
        self.with(name, |item| item.map()).unwrap_or_default()
    }

    pub(super) fn json(&self, name: &str) -> Option<serde_json::Value> {
        self.with(name, |item| item.json())
    }

    /// Each text of a list, with its place for errors.
    pub(super) fn each<T>(&self, name: &str, read: impl Fn(&Item<'_, '_>) -> Option<T>) -> Vec<T> {
        self.with(name, |item| item.items(|item| read(item))).unwrap_or_default()
    }

    /// Whether there is anything to be read.
    pub(super) fn is_there(&self) -> bool {
        !matches!(self.values, Values::None)
    }

    /// Whether this key is there.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The table under this key; of defaults when it is not there. Where [`Kind::Short`] allows it, it may be just
    /// its first key's value.
    pub(super) fn table(&self, name: &str) -> Table<'a> {
        let path = self.path_of(name);
        let key = self.key(name);
        let section = key.and_then(Key::section).unwrap_or(&ROOT);
        let short = key.is_some_and(|key| matches!(key.kind, Kind::Short(_)));
        match self.find(name) {
            None => {}
            Some(value) => match value.get_ref() {
                DeValue::Table(values) => {
                    return Self::open(self.source, path, value.span(), section, values);
                }
                DeValue::String(_) if short => {
                    let (span, values) = (value.span(), Values::First(value));
                    return Table { source: self.source, path, span, section, values };
                }
                other => {
                    let expected = if short { "text or a table" } else { "a table" };
                    self.error(name, format!("expected {expected}, found {}", found(other)), None);
                }
            },
        }
        Table { source: self.source, path, span: self.span.clone(), section, values: Values::None }
    }

    /// The tables of a list. Where [`Kind::Items`] allows it, an item may be just its first key's value.
    pub(super) fn tables(&self, name: &str) -> Vec<Table<'a>> {
        let Some(key) = self.key(name) else { return Vec::new() };
        let (Some(section), Some(value)) = (key.section(), self.find(name)) else { return Vec::new() };
        let short = matches!(key.kind, Kind::Items(_));
        let Some(array) = value.get_ref().as_array() else {
            let expected =
                if short { "a list".to_owned() } else { format!("tables, each headed {}", section.title) };
            self.error(name, format!("expected {expected}, found {}", found(value.get_ref())), None);
            return Vec::new();
        };
        let mut tables = Vec::with_capacity(array.len());
        for (i, value) in array.iter().enumerate() {
            let path = format!("{}[{i}]", self.path_of(name));
            match value.get_ref() {
                DeValue::Table(values) => {
                    tables.push(Self::open(self.source, path, value.span(), section, values))
                }
                DeValue::String(_) if short => {
                    tables.push(Table {
                        source: self.source,
                        path,
                        span: value.span(),
                        section,
                        values: Values::First(value),
                    });
                }
                other => {
                    let expected = if short { "text or a table" } else { "a table" };
                    self.source.note(
                        Some(&value.span()),
                        &path,
                        format!("expected {expected}, found {}", found(other)),
                        None,
                    );
                }
            }
        }
        tables
    }
}

/// The heading of another section that has this key.
fn elsewhere(name: &str, not: &Section) -> Option<&'static str> {
    fn search(section: &'static Section, name: &str, not: &Section) -> Option<&'static str> {
        if !std::ptr::eq(section, not) && section.key(name).is_some() && !section.title.is_empty() {
            return Some(section.title);
        }
        section.keys.iter().filter_map(Key::section).find_map(|below| search(below, name, not))
    }
    search(&ROOT, name, not)
}

/// What a value is, for an error.
fn found(value: &DeValue<'_>) -> String {
    /// Characters of a text that an error repeats.
    const SHOWN: usize = 40;
    match value {
        DeValue::String(text) if text.chars().count() <= SHOWN => format!("{text:?}"),
        DeValue::String(text) => format!("{:?}…", text.chars().take(SHOWN).collect::<String>()),
        DeValue::Integer(integer) => integer.to_string(),
        DeValue::Float(float) => float.to_string(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// `64 MiB` and the like.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn to_json(value: &DeValue<'_>) -> Result<serde_json::Value, &'static str> {
    Ok(match value {
        DeValue::String(text) => serde_json::Value::from(text.as_ref()),
        DeValue::Integer(_) => integer(value).ok_or("a whole number does not fit 64 bits")?.into(),
        DeValue::Float(float) => {
            let float = float.as_str().parse::<f64>().ok().and_then(serde_json::Number::from_f64);
            float.ok_or("JSON has no infinity and no NaN")?.into()
        }
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(_) => return Err("JSON has no dates; write text"),
        DeValue::Array(array) => {
            array.iter().map(|item| to_json(item.get_ref())).collect::<Result<Vec<_>, _>>()?.into()
        }
        DeValue::Table(table) => table
            .iter()
            .map(|(key, item)| Ok((key.get_ref().to_string(), to_json(item.get_ref())?)))
            .collect::<Result<serde_json::Map<_, _>, &'static str>>()?
            .into(),
    })
}
