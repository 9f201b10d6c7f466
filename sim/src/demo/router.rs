//! The router of the demonstration.

use super::child::{ChildError, Server};
use super::run::DemoError;
use crate::web::{self, Http};
use http::StatusCode;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long the router may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A router that runs until this is dropped.
pub(super) struct Router {
    /// Where it takes requests.
    pub(super) url: String,
    /// Where its operator's side is.
    pub(super) admin: String,
    server: Server,
}

impl Router {
    /// Starts `program` in front of `backends`, watching `plugins`.
    pub(super) async fn start(
        program: &Path,
        backends: &[String],
        plugins: &Path,
    ) -> Result<Self, ChildError> {
        let mut command = Command::new(program);
        command.arg("serve");
        for url in backends {
            command.args(["--backend", url]);
        }
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--plugins"]).arg(plugins);
        let mut server = Server::start(format!("the router {}", program.display()), command)?;
        let url = server.word("listening on ").await?;
        let admin = server.word("admin on ").await?;
        server.drain();
        Ok(Self { url, admin, server })
    }

    /// Waits until it says that it is ready.
    pub(super) async fn ready(&self, http: &Http) -> Result<(), DemoError> {
        let begin = Instant::now();
        let url = format!("{}/readyz", self.admin);
        loop {
            let status = web::status(http, &url, Duration::from_secs(5)).await;
            if status.is_ok_and(|status| status == StatusCode::OK) {
                return Ok(());
            }
            if begin.elapsed() > PATIENCE {
                return Err(DemoError::NotReady { said: self.server.last_words() });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
