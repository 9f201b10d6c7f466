//! Flows made by hand.

use super::table::Table;
use crate::{Column, FlowsView};

/// Flows with the columns that a test gives them.
///
/// ```
/// use sluicegate_sdk::{FlowsView, fake};
/// let flows = fake::Flows::named(["a", "b"]).with("flow.length", [1.0, 9.0]);
/// assert_eq!(flows.name(1), "b");
/// ```
#[derive(Debug, Clone)]
pub struct Flows {
    ids: Vec<u32>,
    names: Vec<String>,
    table: Table,
}

impl Flows {
    /// Flows of these names, with handles from 0.
    #[must_use]
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
        Self {
            ids: (0..u32::try_from(names.len()).unwrap_or(u32::MAX)).collect(),
            table: Table::new(names.len()),
            names,
        }
    }

    /// Sets a column.
    #[must_use]
    pub fn with(mut self, column: &str, values: impl IntoIterator<Item = f32>) -> Self {
        self.table.set(column, values);
        self
    }

    /// Sets the handles.
    #[must_use]
    pub fn numbered(mut self, ids: impl IntoIterator<Item = u32>) -> Self {
        self.ids = ids.into_iter().collect();
        self
    }
}

impl FlowsView for Flows {
    fn len(&self) -> usize {
        self.table.rows()
    }
    fn ids(&self) -> Vec<u32> {
        self.ids.clone()
    }
    fn name(&self, position: usize) -> String {
        self.names.get(position).cloned().unwrap_or_default()
    }
    fn column(&self, column: Column) -> Vec<f32> {
        self.table.column(column)
    }
}
