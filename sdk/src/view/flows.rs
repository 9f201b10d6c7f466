//! The flows that wait.

use crate::Column;

/// Flows that wait for a slot: each band's first, then the oldest.
pub trait FlowsView {
    /// How many there are; at least 1 when the host asks.
    fn len(&self) -> usize;
    /// Handles that are stable while the flow exists.
    fn ids(&self) -> Vec<u32>;
    /// The flow's name as `place` gave it.
    fn name(&self, position: usize) -> String;
    /// One value a flow (`flow.*` columns); what the column was given by [`Column::or`] where it is not known.
    fn column(&self, column: Column) -> Vec<f32>;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
