//! What one publisher reported, by data-parallel rank.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::task::yield_now;

use super::batch::Event;
use crate::prefix::exact::{Dropped, Exact, Feed, Kind, Source};

/// Ranks that one publisher may speak for.
const MAX_RANKS: usize = 64;

/// The sources of one publisher. What they hold leaves the index in the background when this is dropped.
#[derive(Debug)]
pub(super) struct Sources {
    index: Arc<Exact>,
    feed: Arc<Feed>,
    by_rank: HashMap<u32, Source>,
}

impl Sources {
    pub(super) fn new(index: &Arc<Exact>, feed: &Arc<Feed>) -> Self {
        Self { index: Arc::clone(index), feed: Arc::clone(feed), by_rank: HashMap::new() }
    }

    /// Takes a report.
    pub(super) async fn take(&mut self, rank: u32, event: &Event) -> Result<Kind, Dropped> {
        let source = self.of(rank).ok_or(Dropped::Malformed)?;
        match event {
            Event::Stored(stored) => source.stored(stored).map(|()| Kind::Stored),
            Event::Removed { blocks, tier, group } => {
                source.removed(blocks, *tier, *group).map(|()| Kind::Removed)
            }
            Event::Cleared => {
                forget(source).await;
                Ok(Kind::Cleared)
            }
        }
    }

    fn of(&mut self, rank: u32) -> Option<&mut Source> {
        let full = self.by_rank.len() >= MAX_RANKS;
        match self.by_rank.entry(rank) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(_) if full => None,
            Entry::Vacant(new) => Some(new.insert(Source::new(&self.index, &self.feed))),
        }
    }

    pub(super) fn hold_nothing(&self) -> bool {
        self.by_rank.values().all(Source::is_empty)
    }

    /// The engine has begun anew: it has not got what was sent to the one before.
    pub(super) fn give_up(&self) {
        self.by_rank.values().for_each(Source::give_up);
    }

    /// Forgets everything.
    pub(super) async fn forget(&mut self) {
        for source in self.by_rank.values_mut() {
            forget(source).await;
        }
    }
}

async fn forget(source: &mut Source) {
    while source.forget_some() {
        yield_now().await;
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        let sources = std::mem::take(&mut self.by_rank);
        if sources.is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(sources));
        }
    }
}

impl Event {
    /// Blocks that it names.
    pub(super) fn blocks(&self) -> usize {
        match self {
            Self::Stored(stored) => stored.blocks.len(),
            Self::Removed { blocks, .. } => blocks.len(),
            Self::Cleared => 0,
        }
    }
}
