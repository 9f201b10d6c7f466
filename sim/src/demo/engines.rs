//! The simulated engines of the demonstration, each a process of its own.

use super::args::Args;
use super::child::{ChildError, Server};
use tokio::process::Command;

/// Tokens of cache of one engine: less than the traffic's working set, more than a fair share of it.
const CACHE_TOKENS: usize = 48_000;
const BLOCK_TOKENS: usize = 16;

/// Engines that run until this is dropped.
pub(super) struct Engines {
    pub(super) urls: Vec<String>,
    _servers: Vec<Server>,
}

impl Engines {
    /// Starts them with empty caches.
    pub(super) async fn start(args: &Args) -> Result<Self, ChildError> {
        let what = "an engine";
        let program =
            std::env::current_exe().map_err(|source| ChildError::Start { what: what.into(), source })?;
        let mut servers = Vec::new();
        for number in 1..=args.engines.max(1) {
            let mut command = Command::new(&program);
            command
                .args(["engine", "--listen", "127.0.0.1:0", "--model", "demo", "--until-stdin-closes"])
                .args(["--name", &format!("engine-{number}")])
                .args(["--block-size", &BLOCK_TOKENS.to_string()])
                .args(["--num-blocks", &(CACHE_TOKENS / BLOCK_TOKENS).to_string()])
                .args(["--speed-up", &args.speed_up.to_string()]);
            servers.push(Server::start(format!("engine {number}"), command)?);
        }
        let mut urls = Vec::new();
        for server in &mut servers {
            urls.push(server.word("listening on ").await?);
            server.drain();
        }
        Ok(Self { urls, _servers: servers })
    }
}
