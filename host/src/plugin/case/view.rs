//! The candidates of a case as a plugin reads them, and which columns it read.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Candidates;
use crate::policy::{Column, ColumnId, EndpointView, Registry};
use crate::types::Profile;

/// Candidates that note what is read of them.
#[derive(Debug)]
pub(super) struct CaseView {
    candidates: Candidates,
    registry: Arc<Registry>,
    read: Mutex<BTreeSet<ColumnId>>,
}

impl CaseView {
    pub(super) fn new(candidates: Candidates, registry: Arc<Registry>) -> Self {
        Self { candidates, registry, read: Mutex::default() }
    }

    /// Names of the columns that were read.
    pub(super) fn read(&self) -> Vec<String> {
        self.read
            .lock()
            .iter()
            .filter_map(|id| self.registry.name(*id))
            .map(|name| name.to_string())
            .collect()
    }

    fn of_label(&self, key: &str) -> Vec<f32> {
        let text = |position: usize| self.candidates.labels.get(position).and_then(|labels| labels.get(key));
        let number = |position| text(position).map_or(f32::NAN, |text| self.registry.intern(key, text));
        (0..self.candidates.len()).map(number).collect()
    }
}

impl EndpointView for CaseView {
    fn len(&self) -> usize {
        self.candidates.len()
    }

    fn profile(&self) -> Profile {
        self.candidates.profile
    }

    fn ids(&self) -> Vec<u32> {
        self.candidates.ids.clone()
    }

    fn keys(&self) -> Vec<u64> {
        self.candidates.keys.iter().map(|key| key.0).collect()
    }

    fn column(&self, column: ColumnId, missing: f32) -> Option<Vec<f32>> {
        let what = self.registry.get(column)?;
        self.read.lock().insert(column);
        let mut values = match what {
            Column::Label(key) => self.of_label(&key),
            Column::Builtin(_) | Column::Metric(_) => {
                self.candidates.columns.get(&*self.registry.name(column)?)?.0.clone()
            }
        };
        for value in &mut values {
            if value.is_nan() {
                *value = missing;
            }
        }
        Some(values)
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.candidates.labels.get(position)?.get(key).map(|text| text.to_string())
    }

    fn labels(&self, position: usize) -> Vec<(Box<str>, Box<str>)> {
        let labels = self.candidates.labels.get(position);
        labels.into_iter().flatten().map(|(key, text)| (key.clone(), text.clone())).collect()
    }
}
