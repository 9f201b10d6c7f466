//! What a guest costs, by itself: for the benchmark of languages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::{Runtime, RuntimeError};
use super::load::{Kept, LoadError, Loaded, Services};
use super::policies::WasmPolicy;
use super::probe;
use crate::clock::{MILLI, RealClock};
use crate::config::PluginConfig;
use crate::policy::Source;

/// Why a guest cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Nothing can be loaded here.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// This file cannot.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// What a guest costs.
#[derive(Debug, Clone)]
pub struct Costs {
    /// From bytes to code.
    pub compile: Duration,
    /// Instantiation and `configure`; the median.
    pub set_up: Duration,
    /// Linear memory of an instance after its calls, bytes.
    pub memory: usize,
    /// A call of its scorer, by the number of candidates; the medians.
    pub calls: Vec<(usize, Duration)>,
}

/// Measures a scorer in this process with `rounds` instances and calls.
///
/// # Errors
/// When it would not be taken into service.
pub fn measure(
    bytes: &[u8],
    config: &PluginConfig,
    candidates: &[usize],
    rounds: usize,
) -> Result<Costs, MeasureError> {
    let services = Services::alone(Arc::new(Runtime::start(None)?), RealClock::start());
    let start = Instant::now();
    let loaded = Loaded::new(&services, bytes, Source::File, 0, config)?;
    let compile = start.elapsed();
    let (instances, _) = loaded.instances(&services, &Kept::default(), config)?;
    let mut set_up = Vec::new();
    for _ in 0..rounds.div_ceil(20) {
        let start = Instant::now();
        let warm = instances.make().map_err(LoadError::SetUp)?;
        set_up.push(start.elapsed());
        drop(warm);
    }
    let policy = WasmPolicy::on_trial(Arc::clone(&instances), 1_000 * MILLI);
    let mut calls = Vec::new();
    for &candidates in candidates {
        let times = (0..rounds).map(|_| probe::time_scorer(&policy, candidates));
        calls.push((candidates, median(times.collect::<Result<_, _>>().map_err(LoadError::SetUp)?)));
    }
    let warm = instances.take().map_err(LoadError::SetUp)?;
    let memory = warm.store.data().memory_bytes();
    instances.give_back(warm);
    Ok(Costs { compile, set_up: median(set_up), memory, calls })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
