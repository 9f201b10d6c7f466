//! Named columns of one length.

use std::collections::HashMap;

use super::with;
use crate::Column;

/// Columns by name; NaN stands for what is not known.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    rows: usize,
    columns: HashMap<String, Vec<f32>>,
}

impl Table {
    pub(super) fn new(rows: usize) -> Self {
        Self { rows, columns: HashMap::new() }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn set(&mut self, name: &str, values: impl IntoIterator<Item = f32>) {
        let mut values: Vec<f32> = values.into_iter().collect();
        values.resize(self.rows, f32::NAN);
        self.columns.insert(name.into(), values);
    }

    pub(super) fn set_one(&mut self, name: &str, row: usize, value: f32) {
        let column = self.columns.entry(name.into()).or_insert_with(|| vec![f32::NAN; self.rows]);
        if let Some(cell) = column.get_mut(row) {
            *cell = value;
        }
    }

    pub(super) fn push_row(&mut self) -> usize {
        self.columns.values_mut().for_each(|column| column.push(f32::NAN));
        self.rows += 1;
        self.rows - 1
    }

    pub(super) fn column(&self, column: Column) -> Vec<f32> {
        let known =
            with(|host| host.columns.name(column.id()).and_then(|name| self.columns.get(name)).cloned());
        let mut values = known.unwrap_or_else(|| vec![f32::NAN; self.rows]);
        values.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = column.missing());
        values
    }

    /// The same rows in another order: row `i` is what row `order[i]` was.
    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        let columns = self.columns.iter().map(|(name, values)| (name.clone(), permuted(values, order)));
        Self { rows: order.len(), columns: columns.collect() }
    }
}

/// The values at these positions.
pub(super) fn permuted<T: Clone>(values: &[T], order: &[usize]) -> Vec<T> {
    order.iter().filter_map(|from| values.get(*from).cloned()).collect()
}
