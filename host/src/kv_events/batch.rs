//! The message in which an engine reports: when, what, and which of its data-parallel ranks.
//!
//! vLLM, SGLang and those that speak like them write `[time, [event, …], rank]`. An event is a map with its kind under
//! `type`, or a list whose first member is the kind and whose others follow an order that only ever grows at its end.
//! Members that are not known are passed over, and an event of an unknown kind or form is dropped by itself.

use xxhash_rust::xxh3::xxh3_64;

use super::msgpack::{Reader, Unreadable, Value};
use crate::prefix::exact::{Adapter, Dropped, Extra, Stored, Tier};

/// Bytes of a name: of adapters, media, salts.
const MAX_TEXT: usize = 1_024;
/// Events of a message: engines send one for some hundred blocks.
const MAX_EVENTS: u32 = 65_536;
/// Token ids of one block.
const MAX_BLOCK_TOKENS: u64 = 1 << 20;

/// One thing that an engine reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Blocks are held.
    Stored(Stored),
    /// Blocks are held no more.
    Removed {
        /// The engine's names of them.
        blocks: Vec<u64>,
        /// Where they were.
        tier: Tier,
        /// The group of layers that it is about.
        group: Option<i64>,
    },
    /// Nothing is held any more.
    Cleared,
}

/// What one message says.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Seconds since 1970 by the engine's clock.
    pub at: f64,
    /// The events in order, and why some of them cannot be used.
    pub events: Vec<Result<Event, Dropped>>,
    /// The data-parallel rank that it is about.
    pub rank: Option<u32>,
}

impl Batch {
    /// Reads a message.
    ///
    /// # Errors
    /// [`Dropped::Message`] when it has another form as a whole.
    pub fn read(bytes: &[u8]) -> Result<Self, Dropped> {
        Self::message(bytes).map_err(|Unreadable| Dropped::Message)
    }

    fn message(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader::new(bytes);
        let members = reader.list()?;
        let at = match reader.value()? {
            Value::Float(at) if at.is_finite() => at,
            Value::Unsigned(at) => at as f64,
            _ => return Err(Unreadable),
        };
        let count = reader.list()?;
        if count > MAX_EVENTS {
            return Err(Unreadable);
        }
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(event(Reader::new(reader.skip()?)));
        }
        let mut rank = None;
        for member in 2..members {
            let value = reader.skip()?;
            if member == 2 {
                rank = natural(value)?.and_then(|rank| u32::try_from(rank).ok());
            }
        }
        if reader.is_empty() { Ok(Self { at, events, rank }) } else { Err(Unreadable) }
    }
}

/// The members of an event that count, as they lie in the message.
#[derive(Debug, Default)]
struct Members<'a> {
    kind: Option<&'a [u8]>,
    blocks: Option<&'a [u8]>,
    parent: Option<&'a [u8]>,
    tokens: Option<&'a [u8]>,
    block_tokens: Option<&'a [u8]>,
    lora_id: Option<&'a [u8]>,
    medium: Option<&'a [u8]>,
    lora_name: Option<&'a [u8]>,
    extra: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
    spec: Option<&'a [u8]>,
}

/// The order of the members in a list, after the kind.
const STORED: [&[u8]; 10] = [
    b"block_hashes",
    b"parent_block_hash",
    b"token_ids",
    b"block_size",
    b"lora_id",
    b"medium",
    b"lora_name",
    b"extra_keys",
    b"group_idx",
    b"kv_cache_spec_kind",
];
const REMOVED: [&[u8]; 3] = [b"block_hashes", b"medium", b"group_idx"];

impl<'a> Members<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, Unreadable> {
        let mut members = Self::default();
        match reader.value()? {
            Value::Map(len) => {
                for _ in 0..len {
                    let name = reader.value()?;
                    let value = reader.skip()?;
                    if let Value::Text(name) = name {
                        members.set(name, value);
                    }
                }
            }
            Value::List(len) => {
                let kind = if len == 0 { return Err(Unreadable) } else { reader.skip()? };
                members.kind = Some(kind);
                let order: &[&[u8]] = match Reader::new(kind).value()? {
                    Value::Text(b"BlockStored") => &STORED,
                    Value::Text(b"BlockRemoved") => &REMOVED,
                    _ => &[],
                };
                for place in 0..len - 1 {
                    let value = reader.skip()?;
                    let name = usize::try_from(place).ok().and_then(|place| order.get(place));
                    name.into_iter().for_each(|name| members.set(name, value));
                }
            }
            _ => return Err(Unreadable),
        }
        Ok(members)
    }

    fn set(&mut self, name: &[u8], value: &'a [u8]) {
        let member = match name {
            b"type" => &mut self.kind,
            b"block_hashes" => &mut self.blocks,
            b"parent_block_hash" => &mut self.parent,
            b"token_ids" => &mut self.tokens,
            b"block_size" => &mut self.block_tokens,
            b"lora_id" => &mut self.lora_id,
            b"medium" => &mut self.medium,
            b"lora_name" => &mut self.lora_name,
            b"extra_keys" => &mut self.extra,
            b"group_idx" => &mut self.group,
            b"kv_cache_spec_kind" => &mut self.spec,
            _ => return,
        };
        *member = Some(value);
    }

    fn stored(&self) -> Result<Stored, Unreadable> {
        let blocks = hashes(self.blocks.ok_or(Unreadable)?)?;
        let name = optional(self.lora_name, text)?.flatten();
        let number = optional(self.lora_id, natural)?.flatten();
        let full_attention = optional(self.spec, text)?.flatten().map(|kind| {
            matches!(kind, "full_attention" | "mla_attention" | "sink_full_attention" | "sink_full")
        });
        let block_tokens = optional(self.block_tokens, natural)?.flatten().unwrap_or(0);
        if block_tokens > MAX_BLOCK_TOKENS {
            return Err(Unreadable);
        }
        Ok(Stored {
            parent: optional(self.parent, |bytes| hash(&mut Reader::new(bytes)))?.flatten(),
            tokens: optional(self.tokens, ids)?.unwrap_or_default(),
            block_tokens: u32::try_from(block_tokens).map_err(|_| Unreadable)?,
            extra: self.extras(name, blocks.len())?,
            adapter: match (name, number) {
                (Some(name), _) => Adapter::Named(name.into()),
                (None, Some(number)) => Adapter::Numbered(number),
                (None, None) => Adapter::None,
            },
            blocks,
            tier: self.tier()?,
            group: self.group()?,
            full_attention,
        })
    }

    fn tier(&self) -> Result<Tier, Unreadable> {
        Ok(Tier::of_medium(optional(self.medium, text)?.flatten()))
    }

    fn group(&self) -> Result<Option<i64>, Unreadable> {
        let group = optional(self.group, natural)?.flatten();
        group.map(i64::try_from).transpose().map_err(|_| Unreadable)
    }

    /// One for each block, or none when no block has any.
    fn extras(&self, adapter: Option<&str>, blocks: usize) -> Result<Vec<Extra>, Unreadable> {
        let Some(bytes) = self.extra else { return Ok(Vec::new()) };
        let mut reader = Reader::new(bytes);
        let count = match reader.value()? {
            Value::Nil => return Ok(Vec::new()),
            Value::List(len) => len,
            _ => return Err(Unreadable),
        };
        if usize::try_from(count) != Ok(blocks) {
            return Err(Unreadable);
        }
        (0..count).map(|_| extra(reader.skip()?, adapter)).collect()
    }
}

fn event(reader: Reader<'_>) -> Result<Event, Dropped> {
    let unreadable = |Unreadable| Dropped::Malformed;
    let members = Members::read(reader).map_err(unreadable)?;
    let kind = optional(members.kind, text).map_err(unreadable)?.flatten().ok_or(Dropped::Malformed)?;
    match kind {
        "BlockStored" => members.stored().map(Event::Stored).map_err(unreadable),
        "BlockRemoved" => members.removed().map_err(unreadable),
        "AllBlocksCleared" => Ok(Event::Cleared),
        _ => Err(Dropped::UnknownKind),
    }
}

impl Members<'_> {
    fn removed(&self) -> Result<Event, Unreadable> {
        let blocks = hashes(self.blocks.ok_or(Unreadable)?)?;
        Ok(Event::Removed { blocks, tier: self.tier()?, group: self.group()? })
    }
}

/// What distinguishes one block: its list without the adapter's name, which stands elsewhere.
fn extra(bytes: &[u8], adapter: Option<&str>) -> Result<Extra, Unreadable> {
    let mut reader = Reader::new(bytes);
    let mut count = match reader.value()? {
        Value::Nil => return Ok(Extra::None),
        Value::List(len) => len,
        _ => return Ok(Extra::Other(xxh3_64(bytes))),
    };
    let after_name = &mut reader.clone();
    if count > 0 && adapter.is_some_and(|name| after_name.value() == Ok(Value::Text(name.as_bytes()))) {
        reader = *after_name;
        count -= 1;
    }
    Ok(match (count, reader.value()) {
        (0, _) => Extra::None,
        (1, Ok(Value::Text(text))) if text.len() <= MAX_TEXT => {
            Extra::Text(std::str::from_utf8(text).map_err(|_| Unreadable)?.into())
        }
        _ => Extra::Other(xxh3_64(bytes)),
    })
}

fn optional<'a, T>(
    bytes: Option<&'a [u8]>,
    read: impl FnOnce(&'a [u8]) -> Result<T, Unreadable>,
) -> Result<Option<T>, Unreadable> {
    bytes.map(read).transpose()
}

fn text(bytes: &[u8]) -> Result<Option<&str>, Unreadable> {
    match Reader::new(bytes).value()? {
        Value::Nil => Ok(None),
        Value::Text(text) if text.len() <= MAX_TEXT => {
            std::str::from_utf8(text).map(Some).map_err(|_| Unreadable)
        }
        _ => Err(Unreadable),
    }
}

fn natural(bytes: &[u8]) -> Result<Option<u64>, Unreadable> {
    match Reader::new(bytes).value()? {
        Value::Nil => Ok(None),
        Value::Unsigned(value) => Ok(Some(value)),
        _ => Err(Unreadable),
    }
}

/// An engine's name of a block: a number of 64 bits, or bytes.
fn hash(reader: &mut Reader<'_>) -> Result<Option<u64>, Unreadable> {
    match reader.value()? {
        Value::Nil => Ok(None),
        Value::Unsigned(value) => Ok(Some(value)),
        Value::Negative(value) => Ok(Some(value as u64)),
        Value::Bytes(bytes) | Value::Text(bytes) => Ok(Some(xxh3_64(bytes))),
        _ => Err(Unreadable),
    }
}

fn hashes(bytes: &[u8]) -> Result<Vec<u64>, Unreadable> {
    let mut reader = Reader::new(bytes);
    let count = reader.list()?;
    (0..count).map(|_| hash(&mut reader)?.ok_or(Unreadable)).collect()
}

fn ids(bytes: &[u8]) -> Result<Vec<u32>, Unreadable> {
    let mut reader = Reader::new(bytes);
    let count = match reader.value()? {
        Value::Nil => 0,
        Value::List(len) => len,
        _ => return Err(Unreadable),
    };
    let id = |value| match value {
        Value::Unsigned(id) => u32::try_from(id).map_err(|_| Unreadable),
        _ => Err(Unreadable),
    };
    (0..count).map(|_| id(reader.value()?)).collect()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
