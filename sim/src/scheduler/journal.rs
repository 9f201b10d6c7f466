//! What became findable in the cache and what ceased to be, in order, for those who publish it.

use crate::text::Token;

/// A block that became findable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its hash.
    pub hash: u64,
    /// That of the block before it; none for the first of a prompt.
    pub parent: Option<u64>,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// The adapter that it was computed with.
    pub adapter: Option<String>,
    /// The request's cache salt, with the first block of its prompt.
    pub salt: Option<String>,
}

/// One change of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A block became findable.
    Stored(Stored),
    /// The block of this hash ceased to be.
    Removed(u64),
}

/// Changes since they were last taken; none are kept unless somebody asked.
#[derive(Debug, Default)]
pub(super) struct Journal {
    kept: bool,
    changes: Vec<Change>,
}

impl Journal {
    /// From now on changes are kept.
    pub(super) fn keep(&mut self) {
        self.kept = true;
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn stored(&mut self, stored: Stored) {
        self.changes.push(Change::Stored(stored));
    }

    pub(super) fn removed(&mut self, hash: u64) {
        if self.kept {
            self.changes.push(Change::Removed(hash));
        }
    }

    pub(super) fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}
