//! The candidates of one call.

use crate::Column;

/// What the candidates are judged for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// The endpoint that answers the client; also where a pool has no roles.
    #[default]
    Decode,
    /// The endpoint that computes the prompt.
    Prefill,
    /// A profile that this version of the SDK does not name.
    Other,
}

impl Profile {
    /// The profile of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "decode" => Self::Decode,
            "prefill" => Self::Prefill,
            _ => Self::Other,
        }
    }
}

/// The candidates of one call. Position `i` is the same candidate in every column; positions never
/// outlive the call.
pub trait EndpointsView {
    /// How many there are; may be 0.
    fn len(&self) -> usize;
    /// What they are judged for.
    fn profile(&self) -> Profile;
    /// Handles that are stable in this process.
    fn ids(&self) -> Vec<u32>;
    /// Hashes of the address and rank: equal in every replica and after a restart.
    fn keys(&self) -> Vec<u64>;
    /// One value a candidate; what the column was given by [`Column::or`] where it is not known.
    fn column(&self, column: Column) -> Vec<f32>;
    /// Several columns in one call, which is cheaper than one by one while there are few candidates.
    fn columns(&self, columns: &[Column]) -> Table {
        let values = columns.iter().flat_map(|column| self.column(*column)).collect();
        Table::new(self.len(), values)
    }
    /// A label of one candidate, such as `zone`. For all of them read the column `label:KEY`.
    fn label(&self, position: usize, key: &str) -> Option<String>;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Columns that were read together, in the order in which they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    len: usize,
    values: Vec<f32>,
}

impl Table {
    /// Columns of `len` values each, one after the other.
    #[must_use]
    pub const fn new(len: usize, values: Vec<f32>) -> Self {
        Self { len, values }
    }

    /// The columns as slices; `N` is how many were asked for. A column that is not there is empty.
    #[must_use]
    pub fn split<const N: usize>(&self) -> [&[f32]; N] {
        std::array::from_fn(|n| self.values.get(n * self.len..(n + 1) * self.len).unwrap_or_default())
    }
}
