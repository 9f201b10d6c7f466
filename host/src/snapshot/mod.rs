//! What a process knows that it could only learn again: as plain data, and as bytes that the next process reads.
//!
//! The bytes are a belief about other processes and about plugins, nothing that must not be lost. So whatever cannot
//! be read, because it is damaged, too long or of another version, is nothing at all, and the next process begins
//! cold. Reading any bytes is safe: it costs memory in proportion to them and ends in an error at worst.

mod bytes;
mod format;
#[cfg(test)]
mod tests;

pub use format::{ReadError, body, read, write};

/// Bytes of a snapshot at most.
pub const MAX_BYTES: usize = 256 << 20;

/// All that a process knows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// When it was made, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// By pool.
    pub pools: Vec<OfPool>,
    /// By plugin.
    pub plugins: Vec<OfPlugin>,
}

/// What is known of a pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfPool {
    /// Its name.
    pub name: Box<str>,
    /// What tells how its prompts are cut into blocks; chains of another cut mean nothing.
    pub cut: u64,
    /// By how much estimated lengths of prompts are wrong.
    pub measure: f32,
    /// Its endpoints.
    pub endpoints: Vec<OfEndpoint>,
    /// Which chains of blocks they were sent. A node comes after its parent.
    pub prefixes: Vec<PrefixNode>,
    /// Its sessions, the one noted first before the others.
    pub sessions: Vec<OfSession>,
    /// What the own instances of plugins saved, by plugin.
    pub saved: Vec<(Box<str>, Vec<u8>)>,
}

/// What is known of an endpoint.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OfEndpoint {
    /// `HOST:PORT`.
    pub name: Box<str>,
    /// When its process started, whole seconds since 1970; 0 when that is not known.
    pub started: u64,
    /// Time to first token and per output token, milliseconds; rates of prefilling and of taking over caches, tokens per
    /// second. NaN where it is not known.
    pub learned: [f32; 4],
}

/// A run of blocks without a branch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixNode {
    /// Its place in the list; none at the beginning of a prompt.
    pub parent: Option<u32>,
    /// The hashes of its blocks.
    pub run: Vec<u64>,
    /// Who holds a chain that ends here.
    pub ends: Vec<End>,
}

/// The end of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The endpoint's place in its list.
    pub endpoint: u32,
    /// How many blocks of the run it holds.
    pub held: u32,
    /// When it was sent, in the order of all ends.
    pub stamp: u64,
}

/// Where a conversation was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfSession {
    /// Of its id.
    pub digest: u128,
    /// The endpoint's place in its list.
    pub endpoint: u32,
    /// How often it came.
    pub turns: u32,
    /// Time since it came last, milliseconds.
    pub age_ms: u64,
}

/// What a plugin stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OfPlugin {
    /// Its name.
    pub name: Box<str>,
    /// Its keys and values.
    pub values: Vec<Stored>,
}

/// A value of a plugin's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// By what it is found.
    pub key: Box<str>,
    /// The value.
    pub value: Vec<u8>,
    /// Time until it expires, milliseconds; none: it does not.
    pub ttl_ms: Option<u64>,
}
