//! Sluicegate: a proxy in front of LLM model servers whose routing policies are WebAssembly components.
//!
//! The modules are layers; an import may only go to a lower one (`cargo xtask layers` holds this):
//!
//! | layer | module | does |
//! |---|---|---|
//! | 6 | [`app`], [`cli`] | parse the command line; wire the parts; run, drain |
//! | 5 | [`proxy`], [`admin`] | sockets: the data plane, and the operator's side |
//! | 4 | [`plugin`], [`scrape`], [`kv_events`], [`telemetry`] | the Wasm host; what engines report; metrics and the decision log |
//! | 4 | [`net`] | sockets, TLS, and HTTP towards engines |
//! | 3 | [`route`], [`flow`], [`disagg`], [`tenants`] | the pipeline; queues; the P/D dialects; who calls and what is left to them |
//! | 2 | [`policy`] | the ports: one trait a stage, with plain types |
//! | 1 | [`audit`], [`config`], [`api`], [`pool`], [`prefix`], [`tokens`] | configuration; request bodies; endpoints; the prefix index; the model's own tokens |
//! | 0 | [`types`], [`clock`], [`files`] | ids and units; real and manual clock; files written whole |
//!
//! Layers 0 to 3 are pure logic: they never name tokio, hyper or wasmtime.

pub mod admin;
pub mod api;
pub mod app;
pub mod audit;
pub mod calibrate;
pub mod cli;
pub mod clock;
pub mod config;
pub mod disagg;
pub mod discovery;
pub mod files;
pub mod flow;
pub mod kv_events;
pub mod net;
pub mod plugin;
pub mod policy;
pub mod pool;
pub mod prefix;
pub mod proxy;
pub mod route;
pub mod scrape;
pub mod snapshot;
pub mod telemetry;
pub mod tenants;
pub mod tokens;
pub mod types;
