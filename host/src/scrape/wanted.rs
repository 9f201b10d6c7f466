//! The names that are worth parsing.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::engines::{METRICS, Take};
use super::page::Page;
use crate::policy::Registry;
use crate::policy::series::Series;
use crate::types::Engine;

/// What the client libraries of Prometheus tell of the process that they are in.
const STARTED: &str = "process_start_time_seconds";

/// What becomes of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// It is one of an engine's fixed numbers.
    Fixed(Engine, Take),
    /// It tells when the process began.
    Started,
    /// It may count for the series at this position.
    Series(usize),
}

/// A name and what becomes of its samples.
type Name = (Box<[u8]>, Vec<Use>);

/// The names to look for, and what becomes of each.
#[derive(Debug)]
pub struct Wanted {
    /// By the length of the name: few names share one, so most lines are decided by it.
    by_length: Vec<Vec<Name>>,
    pub(super) series: Arc<[Series]>,
}

impl Wanted {
    /// The engines' fixed names, and the names of these series.
    #[must_use]
    pub fn new(series: Arc<[Series]>) -> Self {
        let mut wanted = Self { by_length: Vec::new(), series: Arc::clone(&series) };
        for (engine, metrics) in METRICS {
            for (name, take) in *metrics {
                wanted.add(name, Use::Fixed(*engine, *take));
            }
        }
        wanted.add(STARTED, Use::Started);
        for (position, series) in series.iter().enumerate() {
            wanted.add(&series.name, Use::Series(position));
        }
        wanted
    }

    fn add(&mut self, name: &str, what: Use) {
        if self.by_length.len() <= name.len() {
            self.by_length.resize_with(name.len() + 1, Vec::new);
        }
        let Some(names) = self.by_length.get_mut(name.len()) else { return };
        match names.iter_mut().find(|(known, _)| **known == *name.as_bytes()) {
            Some((_, uses)) => uses.push(what),
            None => names.push((name.as_bytes().into(), vec![what])),
        }
    }

    pub(super) fn uses(&self, name: &[u8]) -> Option<&[Use]> {
        let names = self.by_length.get(name.len())?;
        names.iter().find(|(known, _)| **known == *name).map(|(_, uses)| &**uses)
    }

    pub(super) fn page(&self) -> Page {
        Page::of(self.series.len())
    }
}

/// What is wanted at present, for all tasks of a pool.
#[derive(Debug)]
pub(super) struct Shared {
    registry: Arc<Registry>,
    wanted: ArcSwap<Wanted>,
}

impl Shared {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        let wanted = ArcSwap::from_pointee(Wanted::new(registry.series()));
        Self { registry, wanted }
    }

    pub(super) fn get(&self) -> Arc<Wanted> {
        let series = self.registry.series();
        let wanted = self.wanted.load();
        if Arc::ptr_eq(&wanted.series, &series) {
            return Arc::clone(&wanted);
        }
        let wanted = Arc::new(Wanted::new(series));
        self.wanted.store(Arc::clone(&wanted));
        wanted
    }
}
