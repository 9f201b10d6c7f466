//! What waits to be shown to shadows: bounded in number and bytes, and nobody ever waits to put something in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Heard;
use crate::policy::{Event, Shadow};
use crate::route::Snapshot;

/// Messages that wait at most.
pub(super) const MAX_MESSAGES: usize = 256;
/// Bytes that they keep alive, about: bodies of requests above all.
const MAX_BYTES: usize = 64 << 20;
/// How long the thread lets messages gather once it has none: waking it for each request would cost the request more
/// than the snapshot does.
const REST: Duration = Duration::from_millis(2);
/// How long it waits without news.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Something to be shown to shadows.
#[derive(Debug)]
pub(super) enum Message {
    /// A decided request.
    Decided(Snapshot),
    /// For the own instances of a pool.
    Heard {
        /// The pool's name.
        pool: Box<str>,
        /// Whose own instances.
        shadows: Arc<[Arc<Shadow>]>,
        /// What they hear.
        heard: Heard,
    },
}

impl Message {
    fn bytes(&self) -> usize {
        match self {
            Self::Decided(snapshot) => snapshot.bytes(),
            Self::Heard { heard: Heard::Events(events), .. } => size_of::<Event>() * events.len(),
            Self::Heard { heard: Heard::Round(_, seen), .. } => seen.bytes(),
        }
    }

    fn dropped(self) {
        match self {
            Self::Decided(snapshot) => snapshot.dropped(),
            Self::Heard { pool, shadows, .. } => {
                for shadow in shadows.iter() {
                    shadow.stats.gap();
                    let plugin = &*shadow.plugin.name;
                    tracing::debug!(
                        plugin,
                        pool = &*pool,
                        "shadow did not hear all that happened in the pool"
                    );
                }
            }
        }
    }
}

/// What the thread does next.
pub(super) enum Next {
    /// This.
    Message(Message),
    /// Nothing has come for a while.
    Quiet,
    /// It ends.
    Stop,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<(usize, Message)>,
    bytes: usize,
    resting: bool,
    stop: bool,
}

impl Waiting {
    fn fits(&self, bytes: usize) -> bool {
        self.messages.len() < MAX_MESSAGES && self.bytes + bytes <= MAX_BYTES
    }
}

/// The messages in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

impl Queue {
    /// Whether a small message would be taken.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.lock().fits(0)
    }

    /// Takes a message, or drops it at once and counts it.
    pub(super) fn push(&self, message: Message) {
        let bytes = message.bytes();
        let mut waiting = self.waiting.lock();
        if !waiting.fits(bytes) {
            drop(waiting);
            message.dropped();
            return;
        }
        waiting.bytes += bytes;
        waiting.messages.push_back((bytes, message));
        if waiting.messages.len() == 1 && !waiting.resting {
            self.news.notify_one();
        }
    }

    /// Waits for a message.
    pub(super) fn next(&self) -> Next {
        let mut waiting = self.waiting.lock();
        if waiting.messages.is_empty() && !waiting.stop {
            waiting.resting = true;
            self.news.wait_for(&mut waiting, REST);
            waiting.resting = false;
        }
        if waiting.messages.is_empty() && !waiting.stop {
            self.news.wait_for(&mut waiting, LONGEST_WAIT);
        }
        if waiting.stop {
            return Next::Stop;
        }
        let Some((bytes, message)) = waiting.messages.pop_front() else { return Next::Quiet };
        waiting.bytes -= bytes;
        Next::Message(message)
    }

    /// Ends the thread that waits.
    pub(super) fn stop(&self) {
        self.waiting.lock().stop = true;
        self.news.notify_one();
    }
}
