//! The thread that makes and drops the instances of one plugin, so that no request has to.
//!
//! It holds the pool weakly and ends with it. The compiled code it holds for real: the last reference is its own,
//! so that unmapping the code too happens here.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Warm;
use super::pool::Instances;
use crate::plugin::component::Linked;

/// The pause after an instance could not be made; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

enum Errand {
    /// There may be too few instances.
    Look,
    /// This one has served.
    Bury(Box<Warm>),
}

/// What the pool has of its thread.
pub(super) struct Keeper {
    errands: Sender<Errand>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(pool: &Arc<Instances>, linked: Arc<Linked>) -> std::io::Result<Self> {
        let (errands, receiver) = channel();
        let pool = Arc::downgrade(pool);
        std::thread::Builder::new().name("instances".into()).spawn(move || {
            keep(&pool, &receiver);
            drop(linked);
        })?;
        Ok(Self { errands })
    }

    /// Has the thread look whether instances are missing.
    pub(super) fn look(&self) {
        // The thread outlives the pool, which holds the sender.
        let _ = self.errands.send(Errand::Look);
    }

    /// Has the thread drop an instance, and make up for it if need be.
    pub(super) fn bury(&self, warm: Warm) {
        let _ = self.errands.send(Errand::Bury(Box::new(warm)));
    }
}

fn keep(pool: &Weak<Instances>, errands: &Receiver<Errand>) {
    let mut pause = None;
    loop {
        let errand = match pause {
            None => errands.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(pause) => errands.recv_timeout(pause),
        };
        match errand {
            Ok(Errand::Bury(warm)) => drop(warm),
            Ok(Errand::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let Some(pool) = pool.upgrade() else { continue };
        pause = match pool.tend() {
            Ok(()) => None,
            Err(_) => Some(pause.map_or(FIRST_PAUSE, |pause| LONGEST_PAUSE.min(pause * 2))),
        };
    }
}
