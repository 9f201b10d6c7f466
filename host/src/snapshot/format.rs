//! A snapshot as bytes: what it is, its version, a digest of the rest, and the rest.

use xxhash_rust::xxh3::xxh3_64;

use super::bytes::{Reader, Writer};
use super::{End, MAX_BYTES, OfEndpoint, OfPlugin, OfPool, OfSession, PrefixNode, Snapshot, Stored};

const MAGIC: &[u8; 8] = b"SLUICEWS";
const VERSION: u32 = 1;
/// Magic, version, digest.
const HEAD: usize = 8 + 4 + 8;

/// Why bytes are no snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Something else.
    #[error("it is no snapshot")]
    Foreign,
    /// Of another release.
    #[error("it has version {0}, and this program reads {VERSION}")]
    Version(u32),
    /// More than is ever written.
    #[error("it is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// Not what was written.
    #[error("it is damaged")]
    Damaged,
    /// Not what is ever written.
    #[error("it is malformed")]
    Malformed,
}

/// A snapshot as bytes.
#[must_use]
pub fn write(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Writer(vec![0; HEAD]);
    out.number(snapshot.at_unix_ms);
    out.list(&snapshot.pools, write_pool);
    out.list(&snapshot.plugins, |out, plugin| {
        out.bytes(plugin.name.as_bytes());
        out.list(&plugin.values, |out, stored| {
            out.bytes(stored.key.as_bytes());
            out.bytes(&stored.value);
            out.number(stored.ttl_ms.map_or(0, |ttl| ttl.saturating_add(1)));
        });
    });
    let mut bytes = out.0;
    let digest = xxh3_64(bytes.get(HEAD..).unwrap_or_default());
    let head = MAGIC.iter().copied().chain(VERSION.to_le_bytes()).chain(digest.to_le_bytes());
    bytes.iter_mut().zip(head).for_each(|(place, byte)| *place = byte);
    bytes
}

fn write_pool(out: &mut Writer, pool: &OfPool) {
    out.bytes(pool.name.as_bytes());
    out.fixed(pool.cut);
    out.float(pool.measure);
    out.list(&pool.endpoints, |out, endpoint| {
        out.bytes(endpoint.name.as_bytes());
        out.number(endpoint.started);
        endpoint.learned.iter().for_each(|value| out.float(*value));
    });
    out.list(&pool.prefixes, |out, node| {
        out.number(node.parent.map_or(0, |parent| u64::from(parent) + 1));
        out.list(&node.run, |out, hash| out.fixed(*hash));
        out.list(&node.ends, |out, end| {
            out.number(end.endpoint.into());
            out.number(end.held.into());
            out.number(end.stamp);
        });
    });
    out.list(&pool.sessions, |out, session| {
        out.0.extend_from_slice(&session.digest.to_le_bytes());
        out.number(session.endpoint.into());
        out.number(session.turns.into());
        out.number(session.age_ms);
    });
    out.list(&pool.saved, |out, (plugin, state)| {
        out.bytes(plugin.as_bytes());
        out.bytes(state);
    });
}

/// Reads a snapshot.
///
/// # Errors
/// When the bytes are not what [`write`] makes.
pub fn read(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    if bytes.len() > MAX_BYTES {
        return Err(ReadError::TooLong);
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(ReadError::Foreign)?;
    let (version, rest) = rest.split_first_chunk().ok_or(ReadError::Foreign)?;
    match u32::from_le_bytes(*version) {
        VERSION => {}
        other => return Err(ReadError::Version(other)),
    }
    let (digest, rest) = rest.split_first_chunk().ok_or(ReadError::Damaged)?;
    if xxh3_64(rest) != u64::from_le_bytes(*digest) {
        return Err(ReadError::Damaged);
    }
    body(rest)
}

/// Reads what follows the head.
///
/// # Errors
/// When it is malformed.
pub fn body(bytes: &[u8]) -> Result<Snapshot, ReadError> {
    let mut from = Reader(bytes);
    let snapshot = Snapshot {
        at_unix_ms: from.number()?,
        pools: from.list(read_pool)?,
        plugins: from.list(|from| {
            Ok(OfPlugin {
                name: from.text()?,
                values: from.list(|from| {
                    Ok(Stored {
                        key: from.text()?,
                        value: from.bytes()?,
                        ttl_ms: from.number()?.checked_sub(1),
                    })
                })?,
            })
        })?,
    };
    if from.0.is_empty() { Ok(snapshot) } else { Err(ReadError::Malformed) }
}

fn read_pool(from: &mut Reader<'_>) -> Result<OfPool, ReadError> {
    let (name, cut, measure) = (from.text()?, from.fixed()?, from.float()?);
    let endpoints = from.list(|from| {
        Ok(OfEndpoint {
            name: from.text()?,
            started: from.number()?,
            learned: [from.float()?, from.float()?, from.float()?, from.float()?],
        })
    })?;
    let mut known = 0;
    let prefixes = from.list(|from| {
        let node = PrefixNode {
            parent: from.small()?.checked_sub(1),
            run: from.list(Reader::fixed)?,
            ends: from.list(|from| {
                Ok(End { endpoint: from.small()?, held: from.small()?, stamp: from.number()? })
            })?,
        };
        // Chains then have an end.
        if node.parent.is_some_and(|parent| parent >= known) {
            return Err(ReadError::Malformed);
        }
        known += 1;
        Ok(node)
    })?;
    let sessions = from.list(|from| {
        Ok(OfSession {
            digest: from.wide()?,
            endpoint: from.small()?,
            turns: from.small()?,
            age_ms: from.number()?,
        })
    })?;
    let saved = from.list(|from| Ok((from.text()?, from.bytes()?)))?;
    Ok(OfPool { name, cut, measure, endpoints, prefixes, sessions, saved })
}
