//! A real llama.cpp server.

use std::process::Command;

use crate::child::Program;
use crate::request::get;
use crate::{places, wait};

/// A real llama.cpp server with a tiny model that it calls `tiny`; ended when it is dropped.
#[derive(Debug)]
pub struct LlamaServer {
    url: String,
    _program: Program,
}

impl LlamaServer {
    /// Starts one and waits until it answers.
    pub async fn start() -> Self {
        let mut command = Command::new(places::python());
        let mut program = Program::start(command.arg(places::script("xlc_serve.py")).arg(places::gguf()));
        let url = program.line("listening on ").await;
        wait::until("llama.cpp is healthy", async || match get(format!("{url}/health")).try_send().await {
            Ok(answer) => answer.status() == 200,
            Err(_) => false,
        })
        .await;
        Self { url, _program: program }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }
}
