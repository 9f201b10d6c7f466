//! The course of the demonstration.

use super::args::Args;
use super::child::ChildError;
use super::engines::Engines;
use super::outcome::Outcome;
use super::router::Router;
use super::swap::{self, SwapError};
use super::ticker::Ticker;
use super::traffic::traffic;
use crate::load::{self, LoadError, Progress};
use crate::web::{self, Http};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Why the demonstration shows nothing.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A file that it needs is not there.
    #[error("{what} is not at {path}; build it first")]
    Absent {
        /// What is missing.
        what: &'static str,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// An engine or the router did not start.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The router did not become ready.
    #[error("the router did not become ready{said}")]
    NotReady {
        /// Its last words.
        said: String,
    },
    /// No traffic could be sent.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The policy was not swapped.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// No directory to watch.
    #[error("cannot make a directory for the router to watch: {0}")]
    Directory(std::io::Error),
    /// Ctrl-C.
    #[error("stopped")]
    Stopped,
}

/// Runs the demonstration. Whatever way it ends, the processes that it started end with it.
///
/// # Errors
/// When a part does not start, or the swap does not happen.
pub async fn run(args: &Args) -> Result<Outcome, DemoError> {
    tokio::select! {
        outcome = course(args) => outcome,
        () = crate::signals::stopped() => Err(DemoError::Stopped),
    }
}

async fn course(args: &Args) -> Result<Outcome, DemoError> {
    let policy = args.plugins.join(format!("{}.wasm", swap::POLICY));
    for (what, path) in [("the router", &args.router), ("the policy to swap in", &policy)] {
        if !path.is_file() {
            return Err(DemoError::Absent { what, path: path.clone() });
        }
    }
    eprintln!("1. round-robin over {} engines", args.engines);
    let engines = Engines::start(args).await?;
    let progress = Arc::default();
    let ticker = Ticker::start("round-robin", Arc::clone(&progress), args.requests);
    let round_robin = load::run(&traffic(args, engines.urls.clone()), &progress).await?;
    drop(ticker);
    drop(engines);

    eprintln!("2. the same through {}, caches empty again", args.router.display());
    let engines = Engines::start(args).await?;
    let watched = tempfile::tempdir().map_err(DemoError::Directory)?;
    let router = Router::start(&args.router, &engines.urls, watched.path()).await?;
    let http = web::client(4);
    router.ready(&http).await?;
    let progress: Arc<Progress> = Arc::default();
    let ticker = Ticker::start("sluicegate", Arc::clone(&progress), args.requests);
    let traffic = traffic(args, vec![router.url.clone()]);
    let (sluicegate, swapped) = tokio::join!(
        load::run(&traffic, &progress),
        swap_in_the_midst(&http, &router.admin, &policy, watched.path(), &progress, args.requests)
    );
    drop(ticker);
    let (swap, during_swap) = swapped?;
    Ok(Outcome { round_robin, sluicegate: sluicegate?, swap, during_swap, as_json: args.json })
}

/// Swaps the policy once a third of the traffic is through.
async fn swap_in_the_midst(
    http: &Http,
    admin: &str,
    policy: &Path,
    watched: &Path,
    progress: &Progress,
    requests: u64,
) -> Result<(Duration, u64), SwapError> {
    while progress.done() < requests / 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = progress.done();
    eprintln!("  {} is swapped: its file is renamed into the watched directory", swap::POLICY);
    let took = swap::swap(http, admin, policy, watched).await?;
    eprintln!("  the router serves by the new file after {:.1} ms", took.as_secs_f64() * 1e3);
    Ok((took, progress.done() - before))
}
