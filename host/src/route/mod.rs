//! The pipeline of one request: admission, placement, filters, scorers, picker, split.
//!
//! ```text
//! Lane (a pool, its prefix index, its sessions)
//!   │ candidates           Candidates: the endpoints in columns, computed when first read
//!   ▼
//! admit ─► place ─ ─ (waits in flow) ─ ─► choose: filters ─► scorers ─► picker ─► reserve ─► split
//!                                                                      │
//!                                                                      ▼
//!                                               Choice: order of endpoints, reservation, legs
//! ```
//!
//! Every answer passes [`crate::policy::clean`] before it is used, a failed one is replaced by the stage's
//! default or refuses the request, as the plugin's `on_error` says, and all of it is noted in the
//! [`Trace`]. Pure: no sockets, and time comes from the lane's clock.

mod ask;
mod candidates;
mod columns;
mod explain;
mod held;
mod lane;
mod order;
mod pick;
mod pipeline;
pub mod shadow;
mod tend;
#[cfg(test)]
pub(crate) mod tests;

pub use candidates::Candidates;
pub use explain::{Answer, Asked, Explanation, Given, Trace};
pub use held::Holding;
pub use lane::{Lane, RouteMode};
pub use order::Order;
pub use pipeline::{Choice, PlannedLeg, Refusal, admit, any_prefill, choose, place, split_again};
pub use shadow::{ShadowSink, Snapshot};
pub use tend::{Measure, started};
