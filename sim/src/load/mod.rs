//! Traffic as LLM clients make it, and what came of it.

mod args;
mod exchange;
mod progress;
mod report;
mod runner;
mod sample;
mod sse;
mod trace;
mod workload;

pub use args::{Api, Args, Traffic};
pub use progress::Progress;
pub use report::{Quantiles, Report};
pub use runner::{LoadError, run};
pub use sample::{Sample, Trouble};
pub use sse::{StreamReader, StreamSummary};
pub use trace::{Recorded, Trace, TraceError};
pub(crate) use workload::text;
pub use workload::{Conversation, Workload};
