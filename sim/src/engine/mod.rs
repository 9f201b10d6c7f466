//! A simulated vLLM server: the HTTP shell around [`crate::scheduler`].

mod api;
mod args;
mod body;
mod control;
mod error;
mod faults;
mod inference;
mod kv;
mod kv_events;
mod metrics;
mod node;
mod records;
mod server;
mod vocabulary;

pub use args::{Args, Role, Sizes};
pub use error::EngineError;
pub use kv::Connector;
pub use server::run;
