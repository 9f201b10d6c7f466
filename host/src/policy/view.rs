//! The candidates of one call, in columns.

use super::ColumnId;
use crate::types::Profile;

/// What a policy may read of the candidates. Implementations compute a column when it is first asked
/// for and keep it, so that a request pays only for what its policies read.
pub trait EndpointView: Send + Sync + std::fmt::Debug {
    /// How many candidates there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// For what they are judged.
    fn profile(&self) -> Profile;

    /// Handles that are stable in this process.
    fn ids(&self) -> Vec<u32>;

    /// Hashes of the addresses.
    fn keys(&self) -> Vec<u64>;

    /// One value a candidate; `missing` where it is not known. None for a handle that nobody resolved.
    fn column(&self, column: ColumnId, missing: f32) -> Option<Vec<f32>>;

    /// Several columns, one after the other. A handle that nobody resolved gives its `missing` throughout.
    fn columns(&self, columns: &[(ColumnId, f32)]) -> Vec<f32> {
        let one = |(column, missing): &(ColumnId, f32)| {
            self.column(*column, *missing).unwrap_or_else(|| vec![*missing; self.len()])
        };
        columns.iter().flat_map(one).collect()
    }

    /// A label of one candidate.
    fn label(&self, position: usize, key: &str) -> Option<String>;

    /// All labels of one candidate, for whoever writes down what a policy saw.
    fn labels(&self, _position: usize) -> Vec<(Box<str>, Box<str>)> {
        Vec::new()
    }
}
