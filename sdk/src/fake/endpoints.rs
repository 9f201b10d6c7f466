//! Candidates made by hand.

use std::collections::BTreeMap;

use super::table::{Table, permuted};
use super::with;
use crate::{Column, EndpointsView, Profile};

/// Candidates with the columns that a test gives them; what it does not give is missing.
///
/// ```
/// use sluicegate_sdk::{EndpointsView, fake};
/// let endpoints = fake::Endpoints::new(2).with("load.requests", [4.0, 0.0]).labelled("zone", ["a", "b"]);
/// assert_eq!(endpoints.label(1, "zone").as_deref(), Some("b"));
/// ```
#[derive(Debug, Clone)]
pub struct Endpoints {
    ids: Vec<u32>,
    keys: Vec<u64>,
    labels: Vec<BTreeMap<String, String>>,
    profile: Profile,
    table: Table,
}

impl Endpoints {
    /// As many candidates as said.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self {
            ids: (0..u32::try_from(len).unwrap_or(u32::MAX)).collect(),
            keys: (0..len as u64).map(|at| (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect(),
            labels: vec![BTreeMap::new(); len],
            profile: Profile::Decode,
            table: Table::new(len),
        }
    }

    /// Sets a column; NaN is a value that is not known.
    #[must_use]
    pub fn with(mut self, column: &str, values: impl IntoIterator<Item = f32>) -> Self {
        self.table.set(column, values);
        self
    }

    /// Sets one value of a column.
    #[must_use]
    pub fn with_one(mut self, column: &str, position: usize, value: f32) -> Self {
        self.table.set_one(column, position, value);
        self
    }

    /// Sets a label of each candidate, and its column `label:KEY`.
    #[must_use]
    pub fn labelled<'a>(mut self, key: &str, texts: impl IntoIterator<Item = &'a str>) -> Self {
        for (position, text) in texts.into_iter().enumerate() {
            if let Some(labels) = self.labels.get_mut(position) {
                labels.insert(key.into(), text.into());
            }
            let value = with(|host| host.columns.intern(key, text));
            self.table.set_one(&format!("label:{key}"), position, value);
        }
        self
    }

    /// Sets the keys.
    #[must_use]
    pub fn keyed(mut self, keys: impl IntoIterator<Item = u64>) -> Self {
        self.keys = keys.into_iter().collect();
        self
    }

    /// Sets what the candidates are judged for.
    #[must_use]
    pub const fn judged_for(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The same candidates in another order: position `i` is what position `order[i]` was.
    #[must_use]
    pub fn permuted(&self, order: &[usize]) -> Self {
        Self {
            ids: permuted(&self.ids, order),
            keys: permuted(&self.keys, order),
            labels: permuted(&self.labels, order),
            profile: self.profile,
            table: self.table.permuted(order),
        }
    }
}

impl EndpointsView for Endpoints {
    fn len(&self) -> usize {
        self.table.rows()
    }
    fn profile(&self) -> Profile {
        self.profile
    }
    fn ids(&self) -> Vec<u32> {
        self.ids.clone()
    }
    fn keys(&self) -> Vec<u64> {
        self.keys.clone()
    }
    fn column(&self, column: Column) -> Vec<f32> {
        self.table.column(column)
    }
    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.labels.get(position)?.get(key).cloned()
    }
}
