//! What plugins stored, for whoever keeps it over a restart.

use super::Catalog;
use crate::clock::Nanos;

/// A key, its value, and the time that it has left.
pub type Value = (String, Vec<u8>, Option<Nanos>);

impl Catalog {
    /// What every plugin has stored, by name. What candidates stored goes with them.
    #[must_use]
    pub fn stored(&self) -> Vec<(Box<str>, Vec<Value>)> {
        let now = self.services.clock.now();
        let state = self.state.lock();
        let stores: Vec<_> =
            state.entries.iter().map(|(name, entry)| (name.clone(), entry.kept.store.clone())).collect();
        drop(state);
        stores.into_iter().map(|(name, store)| (name, store.export(now))).collect()
    }

    /// Takes in what a plugin had stored, unless it has stored it anew. Of a plugin that is not there it is dropped.
    pub fn restore(&self, name: &str, values: impl Iterator<Item = Value>) {
        let now = self.services.clock.now();
        let state = self.state.lock();
        let Some(store) = state.entries.get(name).map(|entry| entry.kept.store.clone()) else { return };
        drop(state);
        for (key, value, left) in values {
            store.import(key, value, left, now);
        }
    }
}
