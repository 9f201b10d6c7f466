//! Sends the workload: in an open loop at its own times, or in a closed one as answers come.

use super::args::Args;
use super::exchange::Exchange;
use super::progress::Progress;
use super::report::Report;
use super::sample::Sample;
use super::trace::{Trace, TraceError};
use super::workload::{Conversation, Workload};
use crate::rng::{Rng, mix};
use crate::web::{self, WebError};
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Why no traffic could be sent.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The model was not given, and `/v1/models` did not say.
    #[error("cannot ask {url}/v1/models for the model (name it with --model): {source}")]
    Model {
        /// The server asked.
        url: String,
        /// What went wrong.
        source: WebError,
    },
    /// `/v1/models` lists none.
    #[error("{url}/v1/models lists no model; name one with --model")]
    NoModel {
        /// The server asked.
        url: String,
    },
    /// The recorded traffic cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// What all senders of a run share.
struct Run {
    exchange: Exchange,
    shared: Mutex<Shared>,
    /// A conversation can go on.
    ready: Notify,
    progress: Arc<Progress>,
}

struct Shared {
    workload: Workload,
    /// Requests given out.
    given: u64,
    /// Most to give out.
    limit: u64,
    /// When no more are given out.
    deadline: Option<Instant>,
    samples: Vec<Sample>,
}

/// Sends the traffic that `args` describes and sums up what came of it.
///
/// # Errors
/// When no request could be made at all; requests that fail are counted in the report.
pub async fn run(args: &Args, progress: &Arc<Progress>) -> Result<Report, LoadError> {
    let http = web::client(1024);
    let url = args.urls.first().map_or("", |url| url.trim_end_matches('/')).to_owned();
    let model = match &args.model {
        Some(model) => model.clone(),
        None => ask_model(&http, url).await?,
    };
    let traffic = &args.traffic;
    let trace = traffic.trace.as_deref().map(Trace::read).transpose()?;
    let workload = Workload::new(traffic, trace);
    let begin = Instant::now();
    let run = Arc::new(Run {
        exchange: Exchange { http, args: args.clone(), model, conversations: workload.has_sessions() },
        shared: Mutex::new(Shared {
            workload,
            given: 0,
            limit: traffic.limit(),
            deadline: traffic.duration.map(|seconds| begin + Duration::from_secs_f64(seconds.max(0.0))),
            samples: Vec::new(),
        }),
        ready: Notify::new(),
        progress: Arc::clone(progress),
    });
    match traffic.rate {
        Some(rate) => open_loop(&run, rate, begin).await,
        None => closed_loop(&run, traffic.concurrency.max(1)).await,
    }
    let elapsed = begin.elapsed();
    let samples = std::mem::take(&mut run.shared.lock().samples);
    Ok(Report::new(&samples, elapsed))
}

async fn ask_model(http: &web::Http, url: String) -> Result<String, LoadError> {
    let answer =
        web::json(http, http::Method::GET, &format!("{url}/v1/models"), None, Duration::from_secs(10)).await;
    match answer {
        Err(source) => Err(LoadError::Model { url, source }),
        Ok((_, list)) => match list.pointer("/data/0/id").and_then(Value::as_str) {
            Some(model) => Ok(model.to_owned()),
            None => Err(LoadError::NoModel { url }),
        },
    }
}

/// Requests at the times of a Poisson process, whatever is answered meanwhile.
async fn open_loop(run: &Arc<Run>, rate: f64, begin: Instant) {
    let mut gaps = Rng::new(mix(run.exchange.args.traffic.seed ^ 0x9a95));
    let mut at = 0.0;
    let mut tasks = JoinSet::new();
    loop {
        at += gaps.exponential(1.0 / rate.max(1e-6));
        tokio::time::sleep_until((begin + Duration::from_secs_f64(at)).into()).await;
        // Those that have ended need not be kept.
        while tasks.try_join_next().is_some() {}
        let Some((number, conversation)) = run.take().await else { break };
        tasks.spawn(Arc::clone(run).send(number, conversation));
    }
    while tasks.join_next().await.is_some() {}
}

/// A fixed number of senders, each with one request at a time.
async fn closed_loop(run: &Arc<Run>, senders: usize) {
    let mut tasks = JoinSet::new();
    let gap = run.exchange.args.traffic.ramp_s.max(0.0) / senders as f64;
    for sender in 0..senders {
        let run = Arc::clone(run);
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs_f64(gap * sender as f64)).await;
            while let Some((number, conversation)) = run.take().await {
                Arc::clone(&run).send(number, conversation).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

impl Run {
    /// The next request, waiting for an answer that it depends on; `None` when the run is over.
    async fn take(&self) -> Option<(u64, Conversation)> {
        loop {
            let woken = self.ready.notified();
            let deadline = {
                let mut shared = self.shared.lock();
                let under_way = shared.given.saturating_sub(shared.samples.len() as u64);
                if shared.given >= shared.limit
                    || shared.workload.is_over(under_way as usize)
                    || shared.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                {
                    drop(shared);
                    // Whoever waits too learns it in turn.
                    self.ready.notify_one();
                    return None;
                }
                if let Some(conversation) = shared.workload.take() {
                    let number = shared.given;
                    shared.given += 1;
                    return Some((number, conversation));
                }
                shared.deadline
            };
            match deadline {
                None => woken.await,
                Some(deadline) => {
                    let _either_way = tokio::time::timeout_at(deadline.into(), woken).await;
                }
            }
        }
    }

    async fn send(self: Arc<Self>, number: u64, conversation: Conversation) {
        self.progress.start();
        let (sample, text) = self.exchange.send(number, &conversation).await;
        self.progress.end(sample.trouble.is_some());
        let mut shared = self.shared.lock();
        shared.samples.push(sample);
        shared.workload.give_back(conversation, text.as_deref());
        drop(shared);
        self.ready.notify_one();
    }
}
