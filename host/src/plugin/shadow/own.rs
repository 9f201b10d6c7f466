//! The own instances of shadows, one for each shadow and pool.
//!
//! They hear what really happened: the flows are those that the version in force made, and its choice is what was
//! dispatched. What a shadow would have chosen is compared round by round and has no consequences.

use std::sync::{Arc, Weak};

use super::Heard;
use crate::clock::{Clock, Nanos, SECOND};
use crate::flow::{Round, Selection, selection};
use crate::policy::agreement::Orders;
use crate::policy::{Agreement, CallError, Compared, EndpointView, Flows, Own, Shadow, clean};
use crate::route::shadow::{Frozen, note_failure};

/// How often they save their state, from which one that fails is revived.
const SAVE_EVERY: Nanos = SECOND;

struct Owned {
    pool: Box<str>,
    /// Not kept alive from here: the version goes when its chain goes.
    shadow: Weak<Shadow>,
    own: Box<dyn Own>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Owns {
    owned: Vec<Owned>,
    kept_at: Nanos,
}

impl Owns {
    /// Shows something to the own instances that these shadows have for a pool.
    pub(super) fn hear(&mut self, pool: &str, shadows: &[Arc<Shadow>], heard: &Heard, clock: &dyn Clock) {
        for shadow in shadows {
            if !shadow.plugin.health.usable(clock.now()) {
                shadow.stats.gap();
                continue;
            }
            let Some(own) = self.of(pool, shadow, clock) else { continue };
            match heard {
                Heard::Events(events) => {
                    asked(shadow, "observer", clock, own.observe(events));
                }
                Heard::Round(round, seen) if shadow.stages.flow.is_some() => {
                    follow(own, shadow, round, seen, clock);
                }
                Heard::Round(..) => {}
            }
        }
    }

    /// Once a second: saves states, and lets go of instances whose shadow is gone.
    pub(super) fn keep(&mut self, clock: &dyn Clock) {
        let now = clock.now();
        if now.saturating_sub(self.kept_at) < SAVE_EVERY {
            return;
        }
        self.kept_at = now;
        self.owned.retain_mut(|owned| {
            let Some(shadow) = owned.shadow.upgrade() else { return false };
            if shadow.plugin.health.usable(now) {
                asked(&shadow, "handoff", clock, owned.own.save());
            }
            true
        });
    }

    fn of(&mut self, pool: &str, shadow: &Arc<Shadow>, clock: &dyn Clock) -> Option<&mut dyn Own> {
        let is =
            |owned: &Owned| *owned.pool == *pool && std::ptr::eq(owned.shadow.as_ptr(), Arc::as_ptr(shadow));
        let position = match self.owned.iter().position(is) {
            Some(position) => position,
            None => {
                let factory = shadow.stages.own.as_ref()?;
                let own = asked(shadow, "own instance", clock, factory.own())?;
                self.owned.push(Owned { pool: pool.into(), shadow: Arc::downgrade(shadow), own });
                self.owned.len() - 1
            }
        };
        self.owned.get_mut(position).map(|owned| &mut *owned.own as &mut dyn Own)
    }
}

/// What it would have done in a round of dispatching.
fn follow(own: &mut dyn Own, shadow: &Shadow, round: &Round, seen: &Arc<Frozen>, clock: &dyn Clock) {
    let endpoints = Arc::clone(seen) as Arc<dyn EndpointView>;
    let saturation = own.saturation(&endpoints).and_then(clean::saturation);
    let saturation = asked(shadow, "flow-control", clock, saturation);
    if let (Some(ours), Some(theirs)) = (saturation, round.saturation) {
        shadow.stats.saturations(theirs, ours);
    }
    let Some(Selection { flows, count, chosen }) = &round.selection else { return };
    let ours = own.select(flows, &endpoints, *count).and_then(|ours| selection(ours, flows, *count));
    let ours = asked(shadow, "flow-control", clock, ours);
    // A single flow leaves nothing to choose.
    if flows.rows.len() < 2 {
        return;
    }
    let agreement = match &ours {
        Some(ours) => Agreement::of(ours.first() == chosen.first()),
        None => Agreement::Failed,
    };
    shadow.stats.note(Compared::Select, agreement);
    if let Some(ours) = ours {
        shadow.stats.ordered(Orders::of(names(flows, chosen), names(flows, &ours)));
    }
}

fn names<'a>(flows: &'a Flows, positions: &'a [u32]) -> impl Iterator<Item = &'a str> {
    positions.iter().filter_map(|position| Some(&*flows.rows.get(usize::try_from(*position).ok()?)?.name))
}

/// Counts how a call went.
fn asked<R>(shadow: &Shadow, what: &str, clock: &dyn Clock, answer: Result<R, CallError>) -> Option<R> {
    match answer {
        Ok(answer) => {
            shadow.plugin.health.succeeded();
            Some(answer)
        }
        Err(error) => {
            note_failure(&shadow.plugin, what, &error, clock);
            None
        }
    }
}
