//! The thread on which shadows are asked.
//!
//! One for the process, however many pools and shadows there are: what a slow shadow costs is at most one processor,
//! and what it delays is only itself and other shadows. Requests and pools hand over what they saw and go on; the
//! [`queue`] drops what it has no room for. The shadows' own instances, one a pool, live here too and hear the
//! same events and rounds of dispatching as those of the version in force, in the same order.

mod own;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use self::own::Owns;
use self::queue::{Message, Next, Queue};
use crate::clock::Clock;
use crate::flow::Round;
use crate::policy::{Event, Shadow};
use crate::route::shadow::{Frozen, compare};
use crate::route::{ShadowSink, Snapshot};

/// What a pool's own instances hear.
#[derive(Debug, Clone)]
pub enum Heard {
    /// What happened to its requests.
    Events(Arc<[Event]>),
    /// A round of dispatching, with the endpoints as they were before it.
    Round(Round, Arc<Frozen>),
}

/// Handle of the thread; dropping it ends the thread.
#[derive(Debug)]
pub struct Shadowing {
    queue: Arc<Queue>,
}

impl Shadowing {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let thread = Arc::clone(&queue);
        std::thread::Builder::new().name("shadows".into()).spawn(move || run(&thread, &*clock))?;
        Ok(Self { queue })
    }

    /// Tells these shadows what their own instances for a pool should know. Never waits: without room it is dropped,
    /// and counted as a gap.
    pub fn hear(&self, pool: &str, shadows: &Arc<[Arc<Shadow>]>, heard: Heard) {
        self.queue.push(Message::Heard { pool: pool.into(), shadows: Arc::clone(shadows), heard });
    }
}

impl ShadowSink for Shadowing {
    fn has_room(&self) -> bool {
        self.queue.has_room()
    }

    fn offer(&self, snapshot: Snapshot) {
        self.queue.push(Message::Decided(snapshot));
    }
}

impl Drop for Shadowing {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

fn run(queue: &Queue, clock: &dyn Clock) {
    let mut owns = Owns::default();
    loop {
        match queue.next() {
            Next::Stop => return,
            Next::Quiet => {}
            Next::Message(Message::Decided(snapshot)) => compare(&snapshot, clock),
            Next::Message(Message::Heard { pool, shadows, heard }) => {
                owns.hear(&pool, &shadows, &heard, clock);
            }
        }
        owns.keep(clock);
    }
}
