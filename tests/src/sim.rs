//! The project's own simulated engine.

use std::process::Command;

use serde_json::Value;

use crate::child::Program;
use crate::places;
use crate::request::get;

/// A simulated vLLM in a process of its own, with a scheduler, a prefix cache and the NIXL hand-over; ended
/// when it is dropped.
#[derive(Debug)]
pub struct SimEngine {
    url: String,
    _program: Program,
}

impl SimEngine {
    /// One that serves the model `tiny`, a hundred times faster than a real one.
    pub async fn start() -> Self {
        Self::with(&["--speed-up", "100"]).await
    }

    /// One with these flags besides.
    pub async fn with(flags: &[&str]) -> Self {
        let mut command = Command::new(places::sim());
        command
            .args(["engine", "--listen", "127.0.0.1:0", "--model", "tiny", "--until-stdin-closes"])
            .args(flags);
        let mut program = Program::start(&mut command);
        let url = program.line("listening on ").await;
        Self { url, _program: program }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// The id that the router gives it: `host:port`.
    #[must_use]
    pub fn id(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }

    /// What it knows of itself.
    pub async fn state(&self) -> Value {
        get(format!("{}/sim/state", self.url)).send().await.expect(200).await.json().await
    }
}
