//! The process: parts wired together, run, and let go in order.
//!
//! Building has no side effects beyond threads and sockets that the parts own; what is built is then run until a
//! signal asks for the end. On the way out new connections are refused first, requests under way get the drain
//! time, and those that wait in a queue are told.

mod build;
mod signals;
pub mod tokens;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::admin;
use crate::config::{AskForEvents, Config, Listen};
use crate::kv_events;
use crate::plugin::builtin;
use crate::plugin::engine::RuntimeError;
use crate::proxy::{self, Proxy};
use crate::scrape;

/// How often the prefix indexes take over what engines report: about as often as engines are asked.
const TEND: Duration = Duration::from_secs(1);

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The plugin runtime cannot start.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A thread or the asynchronous runtime cannot start.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// An endpoint of a kind that is not served.
    #[error(
        "endpoint {0}: https endpoints are not served by this version; put http:// or a TLS proxy in front"
    )]
    Https(String),
}

/// Serves until a signal asks for the end.
///
/// # Errors
/// When the process cannot start; once it serves it does not fail.
pub fn run(config: Config) -> Result<(), AppError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AppError::Start)?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), AppError> {
    let missing = builtin::missing();
    if !missing.is_empty() {
        tracing::warn!(
            "this binary was built without the default plugins {missing:?}: run `cargo xtask plugins` and build again"
        );
    }
    let listener = bind(&config.listen).await?;
    let admin_listener = bind(&config.admin).await?;
    let parts = build::build(&config)?;
    let (stop, stopped) = watch::channel(false);
    let client = scrape::client(config.scrape.timeout);
    for service in &parts.proxy.pools {
        tokio::spawn(scrape::run(
            Arc::clone(&service.lane.pool),
            Arc::clone(&service.lane.registry),
            client.clone(),
            Arc::clone(&parts.proxy.clock),
            config.scrape.clone(),
        ));
        tokio::spawn(kv_events::run(
            Arc::clone(&service.lane.pool),
            Arc::clone(&service.lane.exact),
            Arc::clone(&parts.proxy.clock),
            service.config.ask_for_events == AskForEvents::Auto,
        ));
    }
    tokio::spawn(tend(Arc::clone(&parts.proxy)));
    announce(&listener, &admin_listener);
    let admin = tokio::spawn(admin::serve(admin_listener, parts.admin, stopped.clone()));
    let proxy = tokio::spawn(proxy::serve(listener, Arc::clone(&parts.proxy), stopped));
    signals::asked_to_stop().await;
    tracing::info!("draining");
    let _ = stop.send(true);
    for service in &parts.proxy.pools {
        service.controller.gate().close();
    }
    let _ = proxy.await;
    admin.abort();
    Ok(())
}

/// Holds what is believed of the endpoints' caches against what they report, for ever.
async fn tend(proxy: Arc<Proxy>) {
    let mut times = tokio::time::interval(TEND);
    loop {
        times.tick().await;
        for service in &proxy.pools {
            service.lane.tend(service.config.block_tokens);
        }
    }
}

async fn bind(listen: &Listen) -> Result<TcpListener, AppError> {
    let address = listen.as_str();
    TcpListener::bind(address).await.map_err(|source| AppError::Listen { address: address.into(), source })
}

/// Says where it listens: with port 0 nobody else can know.
fn announce(listener: &TcpListener, admin: &TcpListener) {
    let mut out = std::io::stdout().lock();
    for (what, listener) in [("listening", listener), ("admin", admin)] {
        if let Ok(address) = listener.local_addr() {
            let _ = writeln!(out, "{what} on http://{address}");
        }
    }
    let _ = out.flush();
}
