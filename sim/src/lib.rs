//! Simulated LLM engines, a load generator, and a demonstration that ties both to the router.
//!
//! | module | does |
//! |---|---|
//! | [`text`] | pure: prompts to tokens, block hashes, deterministic answers |
//! | [`scheduler`] | pure: continuous batching over a paged prefix cache, in injected time |
//! | [`engine`] | the HTTP shell around the scheduler: vLLM's API, metrics, P/D hand-over, faults |
//! | [`load`] | open and closed loop traffic with shared prefixes and sessions, and its report |
//! | [`replay`] | the same traffic and schedulers in virtual time, with the router's routing in the same process |
//! | [`fair`] | flow control in virtual time: scenarios of overload, turns and sessions |
//! | [`split`] | prefill and decode apart in virtual time: each mode beside the others, on several mixes |
//! | [`demo`] | engines, router and load together: round-robin against Sluicegate, with a live swap |
//! | [`cli`] | the command line |

pub mod cli;
pub mod demo;
pub mod engine;
pub mod fair;
pub mod load;
pub mod replay;
pub mod rng;
pub mod scheduler;
pub mod signals;
pub mod split;
pub mod text;
pub mod web;
