//! What happened.

use crate::Column;

/// What an event tells: the value of `event.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Sent to an endpoint.
    Dispatched,
    /// The first token came back.
    FirstToken,
    /// Answered whole.
    Completed,
    /// Failed at the last endpoint tried.
    Failed,
    /// The client went away.
    Cancelled,
    /// A kind that this version of the SDK does not name.
    Other,
}

impl EventKind {
    /// The kind of a value of `event.kind`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a small whole number by contract, and a cast saturates"
    )]
    pub fn from_value(value: f32) -> Self {
        match value as i32 {
            0 => Self::Dispatched,
            1 => Self::FirstToken,
            2 => Self::Completed,
            3 => Self::Failed,
            4 => Self::Cancelled,
            _ => Self::Other,
        }
    }

    /// Whether nothing follows of the same request.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What happened, in order.
pub trait EventsView {
    /// How many there are; at least 1 when the host tells.
    fn len(&self) -> usize;
    /// One value an event (`event.*` columns); what the column was given by [`Column::or`] where it does not
    /// apply.
    fn column(&self, column: Column) -> Vec<f32>;
    /// The id of the request that the event at `position` is of.
    fn request(&self, position: usize) -> String;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
