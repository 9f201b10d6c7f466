//! The candidates of a case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Numbers;
use crate::policy::{Column, ColumnId, EndpointView, Hex, Registry};
use crate::types::Profile;

/// Values of one case at most: 2 MiB of numbers.
const MAX_VALUES: usize = 1 << 19;
/// Bytes of labels of one case at most.
const MAX_LABELS: usize = 1 << 20;

/// Candidates with what the plugin may read of them. Position i is the same candidate in every list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidates {
    /// For what they were judged.
    pub profile: Profile,
    /// `HOST:PORT`, where it is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<Box<str>>,
    /// Handles in the process that wrote the case.
    pub ids: Vec<u32>,
    /// Hashes of their addresses.
    pub keys: Vec<Hex>,
    /// Their labels, which `label:KEY` columns are made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<BTreeMap<Box<str>, Box<str>>>,
    /// Columns by name.
    #[serde(default)]
    pub columns: BTreeMap<Box<str>, Numbers>,
}

impl Default for Candidates {
    fn default() -> Self {
        Self {
            profile: Profile::Decode,
            names: Vec::new(),
            ids: Vec::new(),
            keys: Vec::new(),
            labels: Vec::new(),
            columns: BTreeMap::new(),
        }
    }
}

impl Candidates {
    /// What a plugin that resolved these columns finds in `view`, cut to a bounded size.
    pub(super) fn seen(view: &dyn EndpointView, columns: &[ColumnId], registry: &Registry) -> Self {
        let kept = view.len().min(MAX_VALUES / columns.len().max(1));
        let first = |mut values: Vec<f32>| {
            values.truncate(kept);
            Numbers(values)
        };
        let named = columns.iter().filter_map(|id| {
            let numbers = !matches!(registry.get(*id)?, Column::Label(_));
            let values = numbers.then(|| view.column(*id, f32::NAN)).flatten()?;
            Some(((&*registry.name(*id)?).into(), first(values)))
        });
        Self {
            profile: view.profile(),
            names: Vec::new(),
            ids: view.ids().into_iter().take(kept).collect(),
            keys: view.keys().into_iter().take(kept).map(Hex).collect(),
            labels: labels((0..kept).map(|position| view.labels(position))),
            columns: named.collect(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The list that is not as long as the others, if there is one.
    pub(super) fn uneven(&self) -> Option<&str> {
        let wrong = |len: usize| len != self.len();
        let optional = |len: usize| len > 0 && wrong(len);
        let lists = [("keys", wrong(self.keys.len())), ("names", optional(self.names.len()))];
        let labels = [("labels", optional(self.labels.len()))];
        let columns = self.columns.iter().map(|(name, values)| (&**name, wrong(values.0.len())));
        lists.into_iter().chain(labels).chain(columns).find(|(_, wrong)| *wrong).map(|(name, _)| name)
    }
}

/// Labels by position; none at all when no candidate has any, or when they would take too much room.
pub(super) fn labels(
    all: impl Iterator<Item = Vec<(Box<str>, Box<str>)>>,
) -> Vec<BTreeMap<Box<str>, Box<str>>> {
    let mut bytes = 0;
    let mut kept = Vec::new();
    for labels in all {
        bytes += labels.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if bytes > MAX_LABELS {
            return Vec::new();
        }
        kept.push(labels.into_iter().collect());
    }
    if bytes == 0 { Vec::new() } else { kept }
}
