//! How many instances and versions of one plugin are alive, over all that ever were.
//!
//! Counted where they are made and dropped, by guards that live inside of them: a leak shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The living of one plugin name.
#[derive(Debug, Default)]
pub struct Population {
    instances: Arc<AtomicUsize>,
    generations: Arc<AtomicUsize>,
}

impl Population {
    /// Instances: idle, at work, and those that hear events.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.instances.load(Ordering::Relaxed)
    }

    /// Versions whose code is in memory: the one in force, and earlier ones that a request still holds.
    #[must_use]
    pub fn generations(&self) -> usize {
        self.generations.load(Ordering::Relaxed)
    }

    pub(super) fn instance(&self) -> Alive {
        Alive::one_of(&self.instances)
    }

    pub(in crate::plugin) fn generation(&self) -> Generation {
        Generation(Alive::one_of(&self.generations))
    }
}

/// One of the living; dropped with it.
#[derive(Debug)]
pub(super) struct Alive(Arc<AtomicUsize>);

/// A living version; dropped with its code.
#[derive(Debug)]
pub(in crate::plugin) struct Generation(#[expect(dead_code, reason = "held for its drop")] Alive);

impl Alive {
    fn one_of(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
