//! What a policy reaches without being given it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::columns::Registry;
use super::store::Store;
use crate::log::Level;

/// The state behind the wrappers, one a thread.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) columns: Registry,
    pub(crate) now_ms: u64,
    pub(crate) logs: Vec<(Level, String)>,
    pub(crate) store: Store,
    metrics: BTreeMap<String, f64>,
    seed: u64,
}

impl State {
    /// splitmix64: a test repeats itself.
    pub(crate) fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.seed;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    pub(crate) fn metric(&mut self, name: &str, labels: &[(String, String)]) -> &mut f64 {
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.metrics.entry(format!("{name}{{{}}}", labels.join(","))).or_default()
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

pub(crate) fn with<R>(run: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(|state| run(&mut state.borrow_mut()))
}

/// The host of this thread.
#[must_use]
pub const fn host() -> Host {
    Host(())
}

/// What a test sets, and what it looks at afterwards.
#[derive(Debug, Clone, Copy)]
pub struct Host(());

impl Host {
    /// Sets the clock.
    pub fn set_now_ms(self, now_ms: u64) {
        with(|state| state.now_ms = now_ms);
    }

    /// Moves the clock on.
    pub fn advance_ms(self, by: u64) {
        with(|state| state.now_ms += by);
    }

    /// Seeds the random numbers.
    pub fn set_seed(self, seed: u64) {
        with(|state| state.seed = seed);
    }

    /// Bounds the store: writes over this many keys are errors.
    pub fn set_store_keys(self, keys: usize) {
        with(|state| state.store.set_bound(keys));
    }

    /// The lines logged so far.
    #[must_use]
    pub fn logs(self) -> Vec<(Level, String)> {
        with(|state| state.logs.clone())
    }

    /// The value of a metric, written `name{label=value,…}`: the sum of what was counted or observed, or
    /// what the gauge was set to last.
    #[must_use]
    pub fn metric(self, series: &str) -> Option<f64> {
        with(|state| state.metrics.get(series).copied())
    }

    /// Forgets logs, metrics, the store and the time. Columns that were resolved stay valid.
    pub fn reset(self) {
        with(|state| {
            let columns = std::mem::take(&mut state.columns);
            *state = State { columns, ..State::default() };
        });
    }
}
