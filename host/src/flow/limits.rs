//! How much may wait.

use std::collections::BTreeMap;

use crate::config::{QueueBounds, QueueConfig};

/// Something that is held, or may be at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Requests.
    pub requests: usize,
    /// Bytes that they keep.
    pub bytes: usize,
    /// Tokens of their prompts.
    pub tokens: u64,
}

impl Amount {
    /// Nothing.
    pub const NOTHING: Self = Self { requests: 0, bytes: 0, tokens: 0 };
    /// Without a bound.
    pub const UNBOUNDED: Self = Self { requests: usize::MAX, bytes: usize::MAX, tokens: u64::MAX };

    pub(super) fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }

    pub(super) fn subtract(&mut self, other: Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        self.tokens = self.tokens.saturating_sub(other.tokens);
    }

    /// What of `self` and `more` together is over `most`.
    pub(super) fn over(mut self, more: Self, most: Self) -> Option<What> {
        self.add(more);
        if self.requests > most.requests {
            Some(What::Requests)
        } else if self.bytes > most.bytes {
            Some(What::Bytes)
        } else if self.tokens > most.tokens {
            Some(What::Tokens)
        } else {
            None
        }
    }
}

/// Of what there is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Requests.
    Requests,
    /// Bytes.
    Bytes,
    /// Tokens.
    Tokens,
}

/// Where there is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the pool.
    Pool,
    /// In the band.
    Band,
    /// In the flow.
    Flow,
}

/// The queue takes no more, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Where.
    pub scope: Scope,
    /// Of what.
    pub what: What,
}

/// Bounds of a pool's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Of all that waits.
    pub pool: Amount,
    /// Of each band that has no bounds of its own.
    pub band: Amount,
    /// Of these bands.
    pub bands: BTreeMap<i32, Amount>,
    /// Of each flow.
    pub flow: Amount,
}

impl Limits {
    /// Bounds of the whole alone.
    #[must_use]
    pub fn of(pool: Amount) -> Self {
        Self { pool, band: Amount::UNBOUNDED, bands: BTreeMap::new(), flow: Amount::UNBOUNDED }
    }

    /// Which bound `more` would break, the narrowest first.
    pub(super) fn full(&self, held: &Held, band: i32, more: Amount) -> Option<Full> {
        let of_band = self.bands.get(&band).copied().unwrap_or(self.band);
        let scopes = [
            (Scope::Flow, held.flow, self.flow),
            (Scope::Band, held.band, of_band),
            (Scope::Pool, held.pool, self.pool),
        ];
        scopes
            .into_iter()
            .find_map(|(scope, held, most)| held.over(more, most).map(|what| Full { scope, what }))
    }
}

/// A bound of 0 is none.
impl From<QueueBounds> for Amount {
    fn from(bounds: QueueBounds) -> Self {
        let usize_or_max = |value| if value == 0 { usize::MAX } else { value };
        Self {
            requests: usize_or_max(bounds.requests),
            bytes: usize_or_max(bounds.bytes),
            tokens: if bounds.tokens == 0 { u64::MAX } else { bounds.tokens },
        }
    }
}

impl From<&QueueConfig> for Limits {
    fn from(config: &QueueConfig) -> Self {
        let QueueBounds { requests, bytes, .. } = config.pool;
        Self {
            // In the whole, 0 requests or bytes mean that nothing waits.
            pool: Amount { requests, bytes, ..config.pool.into() },
            band: config.band.into(),
            bands: config.bands.iter().map(|band| (band.priority, band.bounds.into())).collect(),
            flow: config.flow.into(),
        }
    }
}

/// What waits already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) pool: Amount,
    pub(super) band: Amount,
    pub(super) flow: Amount,
}
