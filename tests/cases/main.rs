//! Black-box tests of the built binary. One binary, one topic a file. Run them with `cargo xtask test`, which
//! builds and installs all that they need.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code: a broken expectation is a failed test, and says where"
)]

mod admin;
mod authoring;
mod broken_engines;
mod calibration;
mod candidates;
mod cases;
mod clients;
mod command_line;
mod compiling;
mod configuration;
mod decisions;
mod disaggregation;
mod discovery;
mod errors;
mod faults;
mod flow;
mod forwarding;
mod hostile;
mod hostile_files;
mod hostile_stages;
mod kv_events;
mod language;
mod languages;
mod life;
mod limits;
mod load;
mod malformed;
mod malformed_http2;
mod models;
mod operators;
mod overload;
mod plugin_directory;
mod plugin_watch;
mod protocols;
mod reload;
mod replay;
mod retries;
mod sessions;
mod shadow;
mod soak;
mod split_dialects;
mod split_failures;
mod split_modes;
mod split_pairs;
mod streaming;
mod supply;
mod swaps;
mod swaps_written;
mod tenants;
mod tokens;
mod upgrade;
mod vllm;
mod warm;
