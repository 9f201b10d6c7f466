//! The project's own simulated engine.

use std::process::Command;

use serde_json::Value;

use crate::child::Program;
use crate::places;
use crate::request::{get, post};

/// A simulated vLLM in a process of its own, with a scheduler, a prefix cache and the NIXL hand-over; ended
/// when it is dropped.
#[derive(Debug)]
pub struct SimEngine {
    url: String,
    program: Program,
}

impl SimEngine {
    /// One that serves the model `tiny`, a hundred times faster than a real one.
    pub async fn start() -> Self {
        Self::with(&["--speed-up", "100"]).await
    }

    /// One with these flags besides.
    pub async fn with(flags: &[&str]) -> Self {
        Self::at("127.0.0.1:0", flags).await
    }

    /// The same at an address, such as that of one that is gone.
    pub async fn at(address: &str, flags: &[&str]) -> Self {
        let mut command = Command::new(places::sim());
        command.args(["engine", "--listen", address, "--model", "tiny", "--until-stdin-closes"]).args(flags);
        let mut program = Program::start(&mut command);
        let url = program.line("listening on ").await;
        Self { url, program }
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

    /// Where it publishes what it caches.
    pub async fn kv_events(&mut self) -> String {
        self.program.line("kv events on ").await
    }

    /// Where what it published can be asked for again.
    pub async fn kv_events_replay(&mut self) -> String {
        self.program.line("kv events replay on ").await
    }

    /// The next messages about its cache are lost on their way.
    pub async fn lose_kv_events(&self, messages: u64) {
        let body = serde_json::json!({ "lose": messages }).to_string();
        post(format!("{}/sim/kv-events", self.url), body).send().await.expect(200).await;
    }

    /// Goes wrong from now on: a fault as `/sim/faults` takes it.
    pub async fn fault(&self, fault: Value) {
        post(format!("{}/sim/faults", self.url), fault.to_string()).send().await.expect(200).await;
    }

    /// What it knows of itself.
    pub async fn state(&self) -> Value {
        get(format!("{}/sim/state", self.url)).send().await.expect(200).await.json().await
    }
}
