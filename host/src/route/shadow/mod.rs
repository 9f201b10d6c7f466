//! Shadows: policies that are asked about live traffic and not heard.
//!
//! ```text
//! request path                                    elsewhere, later
//! Trace ── Draft: what was seen and answered ──► ShadowSink ──► compare: asks each shadow about the Snapshot,
//!                                                                 notes what it would have changed
//! ```
//!
//! A request pays for its shadows with a [`Snapshot`]: the columns are shared and not copied, and with no shadow in
//! its chain it pays nothing. It never waits for one: a sink that has no room drops the snapshot and counts it. What
//! a shadow is asked is what was seen when the request was decided, down to the loads that broke ties; nothing is read
//! again from the pool. Each stage is asked with what the version in force was asked with, not with what the shadow's
//! own earlier stages would have left.

mod asking;
mod compare;
mod draft;
mod frozen;
mod rank;
mod snapshot;
#[cfg(test)]
mod tests;

pub use asking::note_failure;
pub use compare::compare;
pub(super) use draft::Draft;
pub use frozen::Frozen;
pub use snapshot::Snapshot;

/// Where snapshots go.
pub trait ShadowSink: Send + Sync + std::fmt::Debug {
    /// Whether another snapshot would be taken: asked first, so that none is made in vain.
    fn has_room(&self) -> bool;

    /// Takes a snapshot, or drops it at once with [`Snapshot::dropped`]. Never waits.
    fn offer(&self, snapshot: Snapshot);
}
