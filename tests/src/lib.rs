//! The language of the black-box tests: engines to route to, a router to route, and a client to ask.
//!
//! ```no_run
//! # async fn test() {
//! use sluicegate_tests::{Engine, Reply, Router};
//!
//! let engine = Engine::start().await;
//! engine.next(Reply::says("good morning"));
//! let router = Router::to(&[&engine]).start().await;
//! let answer = router.chat("hello").send().await;
//! assert_eq!(answer.status(), 200);
//! # }
//! ```
//!
//! - [`Engine`] is a model server in this process that does what the test scripts; [`SimEngine`] is the
//!   project's own simulator, [`RawEngine`] one that answers with any bytes, [`LlamaServer`] a real llama.cpp, [`VllmServer`] a real vLLM; [`aiperf()`] is a real load.
//! - [`Router`] is the built binary, started on free ports and ended when it is dropped.
//! - [`Request`] and [`Answer`] are a real HTTP client; [`RawConnection`] sends what no client would,
//!   and [`Over`] speaks HTTP/2, through TLS or a Unix socket.
//! - [`PluginDir`] is a directory of policies, changed the ways in which operators change one; [`Forged`] is a
//!   policy as no compiler makes it.
//! - [`wait`] holds a condition to come true. Nothing here sleeps and hopes.
//!
//! Where the programs under test are comes from the environment that `cargo xtask test` sets ([`places`]).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "this is test code: a broken expectation is a failed test, and says where"
)]

mod aiperf;
mod answer;
mod child;
mod dns;
mod engine;
mod forged;
mod llama;
mod plugin_dir;
mod raw;
mod raw_engine;
mod request;
mod router;
mod router_views;
mod secure;
mod sim;
mod vllm;

pub mod places;
pub mod wait;

pub use aiperf::aiperf;
pub use answer::{Answer, Broken};
pub use dns::{Dns, Srv};
pub use engine::{Engine, Live, Metrics, Received, Reply};
pub use forged::Forged;
pub use llama::LlamaServer;
pub use plugin_dir::{PluginDir, another, builtin, digest, guest};
pub use raw::{RawAnswer, RawConnection};
pub use raw_engine::{Act, RawEngine};
pub use request::{Connection, Request, get, post};
pub use router::{Router, RouterBuilder};
pub use secure::{Over, certificate, certificates, tls, unix};
pub use sim::SimEngine;
pub use vllm::{VllmServer, free_port};

pub use serde_json::{Value, json};
