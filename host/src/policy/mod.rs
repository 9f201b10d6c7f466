//! The ports through which the host asks a policy: one trait a stage, with plain types.
//!
//! A Wasm plugin and a native policy implement the same traits, so the pipeline cannot tell them apart
//! and tests can use whichever is at hand. Nothing here decides, waits or does I/O: calls are
//! synchronous and an answer is either usable or a [`CallError`] whose [`Reason`] is also its metric
//! label. What an answer must look like is in [`clean`]; when a policy is set aside, in [`health`]; when a new
//! version is rolled back, in [`guardrails`].

pub mod agreement;
pub mod budget;
pub mod clean;
pub mod columns;
pub mod event;
pub mod facts;
pub mod flows;
pub mod guardrails;
pub mod health;
pub mod ports;
pub mod request;
pub mod said;
pub mod series;
pub mod set;
pub mod shadow;
pub mod timing;
pub mod trial;
pub mod view;

pub use agreement::{Agreement, Compared, Counts, ShadowStats};
pub use budget::Budget;
pub use columns::{Builtin, Column, ColumnId, Registry};
pub use event::{Event, EventKind};
pub use facts::{Facts, Hex};
pub use flows::{FlowRow, Flows};

pub use health::Health;
pub use ports::{
    Admission, Call, CallError, Disaggregation, Filter, FlowControl, Leg, LegStage, Own, OwnFactory, Picker,
    Placement, Reason, Rejection, Scorer, Stage, Verdict,
};
pub use request::{PrefixSource, Request};
pub use said::Said;
pub use set::{Chain, OnEmpty, OnError, Plugin, PolicySet, Slot, Source};
pub use shadow::{Shadow, Stages};
pub use timing::CallTimes;
pub use trial::{Part, PoolFacts, Serving, Share, Trial};
pub use view::EndpointView;
