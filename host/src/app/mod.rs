//! The process: parts wired together, run, and let go in order.
//!
//! What [`shared`] holds lives as long as the process; [`running`] holds what the configuration says, and changes from
//! one configuration to the next when the file does. It runs until a signal asks for the end. On the way out new connections are refused first, requests under way get the drain
//! time, and those that wait in a queue are told.

mod config_watch;
mod running;
pub mod secrets;
mod services;
mod shared;
mod signals;
mod tasks;
pub mod tokens;
mod upgrade;
mod warm;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use self::running::Running;
use self::upgrade::{Ask, Sockets};
pub use self::upgrade::{Predecessor, ask};
use crate::admin;
use crate::config::{Config, Flags, Listen, SecretError};
use crate::net::{Listener, ServerTls, TlsError};
use crate::plugin::builtin;
use crate::plugin::engine::RuntimeError;
use crate::policy::{Chain, Registry};
use crate::pool::Status;
use crate::proxy::{self, Stop};

/// How often the prefix indexes take over what engines report: about as often as engines are asked.
const TEND: Duration = Duration::from_secs(1);
/// How long a process that takes over waits for engines before it serves.
const ENGINES: Duration = Duration::from_secs(10);

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
    /// A secret that the configuration names is not there.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A thread or the asynchronous runtime cannot start.
    #[error("cannot start: {0}")]
    Start(std::io::Error),
    /// A certificate or key cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
}

/// Policies that are compiled into the process, in the place of all plugins: for benchmarks.
pub type Native = fn(&Registry) -> Chain;

/// Serves until a signal asks for the end, or another process takes over. `flags` are what `config` was read from: it
/// is read again when its file changes. `predecessor` is the process whose place this one takes.
/// `native` policies serve in the place of plugins.
///
/// # Errors
/// When the process cannot start; once it serves it does not fail.
pub fn run(
    flags: Flags,
    config: Config,
    predecessor: Option<Predecessor>,
    native: Option<Native>,
) -> Result<(), AppError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(AppError::Start)?;
    runtime.block_on(serve(flags, config, predecessor, native))
}

async fn serve(
    flags: Flags,
    config: Config,
    mut predecessor: Option<Predecessor>,
    native: Option<Native>,
) -> Result<(), AppError> {
    let missing = builtin::missing();
    if !missing.is_empty() {
        tracing::warn!(
            "this binary was built without the default plugins {missing:?}: run `cargo xtask plugins` and build again"
        );
    }
    let started = start(flags, config, native, predecessor.as_mut()).await;
    let (started, running) = started.inspect_err(|error| {
        if let Some(predecessor) = &predecessor {
            predecessor.failed(error);
        }
    })?;
    if let Some(predecessor) = &predecessor {
        known_engines(&running).await;
        tokio::task::block_in_place(|| predecessor.up()).map_err(AppError::Start)?;
    }
    tokio::task::block_in_place(|| warm::restore(&running, &started.state_dir));
    started.serve(running, predecessor).await
}

/// A process that could serve.
struct Started {
    listener: Listener,
    tls: Option<Arc<ServerTls>>,
    admin: TcpListener,
    sockets: Sockets,
    state_dir: PathBuf,
}

async fn start(
    flags: Flags,
    config: Config,
    native: Option<Native>,
    mut predecessor: Option<&mut Predecessor>,
) -> Result<(Started, Arc<Running>), AppError> {
    let tls = config.tls.as_ref().map(ServerTls::load).transpose()?.map(Arc::new);
    let listener = listen(&config.listen, predecessor.as_deref_mut()).await?;
    let admin = bind(&config.admin, predecessor).await?;
    let sockets = Sockets::of(&[(config.listen.as_str(), &listener), (config.admin.as_str(), &admin)])
        .map_err(AppError::Start)?;
    let state_dir = config.state_dir.clone();
    let running = Running::start(flags, config, native, tokio::runtime::Handle::current())?;
    Ok((Started { listener, tls, admin, sockets, state_dir }, running))
}

impl Started {
    async fn serve(self, running: Arc<Running>, predecessor: Option<Predecessor>) -> Result<(), AppError> {
        let Self { listener, tls, admin, sockets, state_dir } = self;
        let (stop, stopped) = watch::channel(Stop::No);
        let (stop_admin, admin_stopped) = watch::channel(false);
        announce(&listener, if tls.is_some() { "https" } else { "http" }, &admin);
        let admin = tokio::spawn(admin::serve(admin, Arc::clone(&running.admin), admin_stopped));
        let proxy = tokio::spawn(proxy::serve(listener, tls.clone(), Arc::clone(&running.proxy), stopped));
        if let Some(predecessor) = predecessor {
            predecessor.serving();
        }
        let (asks, asked) = mpsc::channel(1);
        let mut keeping = vec![
            Ends::of(tend(Arc::clone(&running))),
            Ends::of(keep_warm(Arc::clone(&running), state_dir.clone())),
            Ends::of(signals::reload_when_asked(Arc::clone(&running))),
            Ends::of(signals::upgrade_when_asked(asks.clone())),
        ];
        if let Some(tls) = tls {
            keeping.push(Ends::of(async move { tls.follow().await }));
        }
        let config_watch = match running.file() {
            Some(file) => {
                Some(config_watch::start(file.into(), Arc::downgrade(&running)).map_err(AppError::Start)?)
            }
            None => None,
        };
        let control = upgrade::listen(&state_dir, asks).await.inspect_err(|error| {
            tracing::warn!(state_dir = %state_dir.display(), %error, "`sluicegate upgrade` cannot reach this process; SIGUSR2 can");
        });
        let why = until_over(&running, asked, sockets, &state_dir).await;
        drop((control, config_watch));
        keeping.clear();
        if why == Stop::HandOver {
            tracing::info!("another process serves; what runs here ends");
            running.retire();
        } else {
            tracing::info!("draining");
            for service in &running.proxy.load().pools {
                service.controller.gate().close();
            }
        }
        let _ = stop.send(why);
        // Its socket is the other process's now; otherwise whoever watches the drain is answered.
        if why == Stop::HandOver {
            let _ = stop_admin.send(true);
        }
        if why == Stop::Leave {
            tokio::task::block_in_place(|| warm::save(&running, &state_dir));
        }
        let _ = proxy.await;
        let _ = stop_admin.send(true);
        if why == Stop::Leave {
            tokio::task::block_in_place(|| warm::save(&running, &state_dir));
        }
        admin.abort();
        Ok(())
    }
}

/// Returns when the process is to end, or has handed over.
async fn until_over(
    running: &Arc<Running>,
    mut asked: mpsc::Receiver<Ask>,
    sockets: Sockets,
    state_dir: &Path,
) -> Stop {
    let sockets = Arc::new(sockets);
    let mut over = std::pin::pin!(signals::asked_to_stop());
    loop {
        let ask = tokio::select! {
            () = &mut over => return Stop::Leave,
            Some(ask) = asked.recv() => ask,
        };
        tracing::info!("handing over to another process");
        let (running, sockets, state_dir) = (Arc::clone(running), Arc::clone(&sockets), state_dir.to_owned());
        let handing = tokio::task::spawn_blocking(move || {
            let program = ask.program.map_or_else(upgrade::own_program, Ok);
            let program = program.map_err(|error| error.to_string())?;
            upgrade::hand_over(&program, &sockets, || warm::save(&running, &state_dir))
        });
        let handed = tokio::select! {
            () = &mut over => return Stop::Leave,
            handed = handing => handed.unwrap_or_else(|error| Err(error.to_string())),
        };
        match &handed {
            Ok(pid) => tracing::info!(pid, "handed over"),
            Err(why) => tracing::error!("no other process takes over, and this one goes on: {why}"),
        }
        let over = handed.is_ok();
        let _ = ask.answer.send(handed);
        if over {
            return Stop::HandOver;
        }
    }
}

/// Waits until every endpoint was asked once, but not for long: those that are down are for the process before too.
async fn known_engines(running: &Running) {
    let known = async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let unknown = |service: &Arc<proxy::Service>| {
            let endpoints = service.lane.pool.endpoints();
            endpoints.iter().any(|endpoint| endpoint.health.status() == Status::Unknown)
        };
        while running.proxy.load().pools.iter().any(unknown) {
            look.tick().await;
        }
    };
    let _ = tokio::time::timeout(ENGINES, known).await;
}

/// Writes down what is known every so often, for ever.
async fn keep_warm(running: Arc<Running>, state_dir: PathBuf) {
    let mut times = tokio::time::interval_at(tokio::time::Instant::now() + warm::EVERY, warm::EVERY);
    loop {
        times.tick().await;
        let (running, state_dir) = (Arc::clone(&running), state_dir.clone());
        let _ = tokio::task::spawn_blocking(move || warm::save(&running, &state_dir)).await;
    }
}

/// Ends a task when dropped.
struct Ends(tokio::task::AbortHandle);

impl Ends {
    fn of(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Holds what is believed of the endpoints' caches against what they report, for ever.
async fn tend(running: Arc<Running>) {
    let mut times = tokio::time::interval(TEND);
    loop {
        times.tick().await;
        for service in &running.proxy.load_full().pools {
            service.lane.tend(service.config.block_tokens);
        }
    }
}

/// The socket of the process before, or one of our own.
async fn bind(listen: &Listen, predecessor: Option<&mut Predecessor>) -> Result<TcpListener, AppError> {
    let address = listen.as_str();
    let failed = |source| AppError::Listen { address: address.into(), source };
    match predecessor.and_then(|predecessor| predecessor.listener(address)) {
        Some(listener) => {
            listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener)).map_err(failed)
        }
        None => TcpListener::bind(address).await.map_err(failed),
    }
}

/// The same for clients, who may come through a Unix socket.
async fn listen(listen: &Listen, predecessor: Option<&mut Predecessor>) -> Result<Listener, AppError> {
    let address = listen.as_str();
    let failed = |source| AppError::Listen { address: address.into(), source };
    match predecessor.and_then(|predecessor| predecessor.listener(address)) {
        Some(listener) => Listener::taken(listen, listener).map_err(failed),
        None => Listener::bind(listen).await.map_err(failed),
    }
}

/// Says where it listens: with port 0 nobody else can know.
fn announce(listener: &Listener, scheme: &str, admin: &TcpListener) {
    let mut out = std::io::stdout().lock();
    if let Ok(place) = listener.place(scheme) {
        let _ = writeln!(out, "listening on {place}");
    }
    if let Ok(address) = admin.local_addr() {
        let _ = writeln!(out, "admin on http://{address}");
    }
    let _ = out.flush();
}
