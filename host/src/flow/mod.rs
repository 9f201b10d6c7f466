//! Who waits, who may go at once, and who is next.
//!
//! A request is placed (flow, band, rank) by the pool's flow-control policy and comes to the [`Gate`]. While
//! nobody waits in its band or above and the pool is less saturated than its ceiling it goes at once, for
//! the price of a lock. Else it waits in a bounded queue until [`dispatch`] lets the policy name its flow,
//! its time is up, or its client leaves. The gate never decides an order of its own, except first come
//! first served when there is no policy or its answer cannot be used.

mod band;
mod contest;
mod dispatch;
mod drain;
mod gate;
mod limits;
mod observed;
#[cfg(test)]
mod properties;
mod queue;
mod sessions;
mod status;
#[cfg(test)]
mod tests;

pub use dispatch::{Controls, Room, Round, Selection, dispatch, selection};
pub use gate::{Entered, Gate, Outcome, Pass, Place, Waiter, Waiting};
pub use limits::{Amount, Full, Limits, Scope, What};
pub use observed::{FlowLine, jain};
pub use sessions::{Claim, SessionKey};
pub use status::{GateStatus, Standing};
