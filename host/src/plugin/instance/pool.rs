//! The instances of one plugin with one configuration that wait to be asked.
//!
//! There are two kinds of guests. A *cheap* one is made in some tens of microseconds: a call that finds none idle
//! makes one on the spot. A *slow* one brings a language's runtime and takes milliseconds, which no request can
//! wait for: as many as calls can run at once are made before the plugin counts, and the [`super::keeper`] makes
//! up for each that goes. Which kind it is, is measured when the first one is made. A call that finds no instance
//! of a slow guest is not asked ([`Reason::Warming`]), which is no failure of the plugin.
//!
//! An instance goes when its call failed, when it is aged, and when its version goes. Dropping one gives back its
//! memory, which may take long too, so it is left to the keeper.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::keeper::Keeper;
use super::{SETUP_LIMIT, Warm};
use crate::clock::{MILLI, Nanos};
use crate::plugin::budget::thread_time;
use crate::plugin::case::Question;
use crate::plugin::component::Linked;
use crate::plugin::host::Shared;
use crate::policy::{CallError, ColumnId, Reason};

/// CPU time to make an instance above which a guest is slow: ten times what one without a runtime takes, and less
/// than those of Go (0.7 ms) and JavaScript (1.1 ms), so that no request makes one of them.
const SLOW: Nanos = MILLI / 2;

/// CPU time to make an instance while a request waits.
const ON_THE_SPOT_LIMIT: Nanos = 20 * MILLI;

#[derive(Default)]
struct Idle {
    /// The one that was used last is at the back, where the next call takes it: its memory is in the caches.
    instances: VecDeque<Warm>,
    /// Idle and at work.
    alive: usize,
    /// An aged instance is being replaced.
    renewing: bool,
    /// Why the keeper has none to offer.
    problem: Option<CallError>,
}

/// How a plugin is instantiated, and its instances.
pub(in crate::plugin) struct Instances {
    linked: Arc<Linked>,
    shared: Arc<Shared>,
    config: Box<str>,
    idle: Mutex<Idle>,
    keeper: OnceLock<Keeper>,
    /// How many of a slow guest there should be; none of a cheap one.
    wanted: OnceLock<NonZeroUsize>,
}

impl Instances {
    pub(in crate::plugin) fn new(linked: Arc<Linked>, shared: Arc<Shared>, config: Box<str>) -> Self {
        Self {
            linked,
            shared,
            config,
            idle: Mutex::default(),
            keeper: OnceLock::new(),
            wanted: OnceLock::new(),
        }
    }

    pub(in crate::plugin) fn stages(&self) -> &[&'static str] {
        &self.linked.stages
    }

    /// Writes down a call that failed.
    pub(in crate::plugin) fn failed(
        &self,
        question: Question<'_>,
        error: &CallError,
        backtrace: Vec<Box<str>>,
    ) {
        let Shared { recorder, clock, registry, .. } = &*self.shared;
        recorder.failed(question, &**clock, (&self.columns(), registry), error, backtrace);
    }

    /// Bytes of the memories of a warm instance.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub(in crate::plugin) fn memory_bytes(&self) -> Result<usize, CallError> {
        let warm = self.take()?;
        let bytes = warm.store.data().memory_bytes();
        self.give_back(warm);
        Ok(bytes)
    }

    /// The columns that the guest resolved.
    pub(in crate::plugin) fn columns(&self) -> Vec<ColumnId> {
        self.shared.resolved.lock().iter().copied().collect()
    }

    /// Gets ready for requests, once trial calls went well: finds out what an instance costs, makes those of a
    /// slow guest, and starts the keeper.
    ///
    /// # Errors
    /// When an instance cannot be made, or no thread can be started.
    pub(in crate::plugin) fn ready(self: &Arc<Self>) -> Result<(), CallError> {
        self.ready_when(|used| used > SLOW)
    }

    pub(super) fn ready_when(self: &Arc<Self>, slow: impl Fn(Nanos) -> bool) -> Result<(), CallError> {
        let before = thread_time();
        let warm = self.make()?;
        let used = thread_time().saturating_sub(before);
        self.take_in(warm);
        if slow(used) {
            let at_once = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
            let _ = self.wanted.set(at_once);
            while self.wants_more() {
                self.take_in(self.make()?);
            }
        }
        let keeper = Keeper::start(self, Arc::clone(&self.linked)).map_err(|error| {
            CallError::new(Reason::NoInstance, format!("no thread for instances: {error}"))
        })?;
        let _ = self.keeper.set(keeper);
        Ok(())
    }

    /// Takes an idle instance, or makes one if that is cheap.
    ///
    /// # Errors
    /// [`Reason::Warming`] while there is none, [`Reason::NoInstance`] when none can be made.
    pub(in crate::plugin) fn take(&self) -> Result<Warm, CallError> {
        let mut idle = self.idle.lock();
        if let Some(warm) = idle.instances.pop_back() {
            return Ok(warm);
        }
        if self.wanted.get().is_some() {
            return Err(idle.problem.clone().unwrap_or_else(|| {
                CallError::new(Reason::Warming, "all its instances are at work, and more are being made")
            }));
        }
        drop(idle);
        let limit = if self.keeper.get().is_some() { ON_THE_SPOT_LIMIT } else { SETUP_LIMIT };
        let warm = self.make_within(limit)?;
        self.idle.lock().alive += 1;
        Ok(warm)
    }

    /// Puts a fresh instance where the next call takes it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(in crate::plugin) fn refresh(&self) -> Result<(), CallError> {
        drop(self.take_in(self.make()?));
        Ok(())
    }

    /// Gives an instance back after a call that went well.
    pub(in crate::plugin) fn give_back(&self, warm: Warm) {
        let mut idle = self.idle.lock();
        if !warm.aged() {
            idle.instances.push_back(warm);
            return;
        }
        let keep = self.wanted.get().is_some_and(|wanted| idle.alive <= wanted.get());
        if !keep {
            drop(idle);
            return self.lose(warm);
        }
        // It serves on until there is another in its place.
        idle.instances.push_front(warm);
        let first = !std::mem::replace(&mut idle.renewing, true);
        drop(idle);
        if first && let Some(keeper) = self.keeper.get() {
            keeper.look();
        }
    }

    /// Parts with an instance that was taken.
    pub(in crate::plugin) fn lose(&self, warm: Warm) {
        self.idle.lock().alive -= 1;
        self.discard(warm);
    }

    /// Parts with an instance that was never in the pool.
    pub(in crate::plugin) fn discard(&self, warm: Warm) {
        if let Some(keeper) = self.keeper.get() {
            keeper.bury(warm);
        }
    }

    /// An instance for keeps, and so not one of the pool any more: a made one of a slow guest, else a fresh one.
    ///
    /// # Errors
    /// As for [`Self::take`].
    pub(in crate::plugin) fn take_out(&self) -> Result<Warm, CallError> {
        if self.wanted.get().is_none() {
            return self.make();
        }
        let warm = self.take()?;
        self.idle.lock().alive -= 1;
        if let Some(keeper) = self.keeper.get() {
            keeper.look();
        }
        Ok(warm)
    }

    /// A fresh instance, outside of the pool and however long it takes.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(in crate::plugin) fn make(&self) -> Result<Warm, CallError> {
        self.make_within(SETUP_LIMIT)
    }

    fn make_within(&self, limit: Nanos) -> Result<Warm, CallError> {
        Warm::make(&self.linked, &self.shared, &self.config, limit)
    }

    /// Brings a slow guest's pool to its size, and aged instances out of it.
    ///
    /// # Errors
    /// When an instance cannot be made; calls get the same until one can.
    pub(super) fn tend(&self) -> Result<(), CallError> {
        while self.wants_more() {
            match self.make() {
                Ok(warm) => drop(self.take_in(warm)),
                Err(error) => {
                    tracing::warn!(plugin = &*self.shared.name, %error, "no instance");
                    self.idle.lock().problem = Some(error.clone());
                    return Err(error);
                }
            }
        }
        self.idle.lock().renewing = false;
        Ok(())
    }

    fn wants_more(&self) -> bool {
        let Some(wanted) = self.wanted.get() else { return false };
        let idle = self.idle.lock();
        idle.alive < wanted.get() || (idle.alive == wanted.get() && idle.instances.iter().any(Warm::aged))
    }

    /// Takes a new instance in; gives the one in whose place it comes.
    fn take_in(&self, warm: Warm) -> Option<Warm> {
        let mut idle = self.idle.lock();
        idle.problem = None;
        idle.alive += 1;
        idle.instances.push_back(warm);
        if self.wanted.get().is_none_or(|wanted| idle.alive <= wanted.get()) {
            return None;
        }
        let aged = idle.instances.iter().position(Warm::aged)?;
        idle.alive -= 1;
        idle.instances.remove(aged)
    }
}

impl Drop for Instances {
    /// The last who lets go of a version may be a request.
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            for warm in self.idle.get_mut().instances.drain(..) {
                keeper.bury(warm);
            }
        }
    }
}
