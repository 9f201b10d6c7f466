//! The deadline of a call, in CPU time of the thread that runs it.
//!
//! A healthy plugin on a busy machine may be off the processor for longer than its whole deadline;
//! counting wall time would punish it for its neighbours. The thread's clock is a system call, so it is
//! read only when a tick falls into the call: a call shorter than a tick, which is nearly every call,
//! never pays for it. The first tick sets the mark, so a guest is interrupted between its deadline and
//! one tick more.

use rustix::time::{ClockId, clock_gettime};

use super::engine::TICK;
use crate::clock::{Nanos, SECOND, nanos};

/// State of the deadline of the call under way.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    limit: Nanos,
    /// Thread time when the call began, as the first tick estimated it.
    began: Option<Nanos>,
    expired: bool,
}

impl Deadline {
    /// Begins a call that may use `limit` of CPU time.
    pub(super) fn arm(&mut self, limit: Nanos) {
        *self = Self { limit, began: None, expired: false };
    }

    /// A tick fell into the call: says whether it has used up its time.
    pub(super) fn tick(&mut self) -> bool {
        let now = thread_time();
        // On average half a tick has gone by; taking a whole one keeps a limit of one tick sharp.
        let began = *self.began.get_or_insert(now.saturating_sub(nanos(TICK)));
        self.expired = now.saturating_sub(began) >= self.limit;
        self.expired
    }

    /// Whether the call was interrupted.
    #[must_use]
    pub(super) fn expired(&self) -> bool {
        self.expired
    }

    /// CPU time that the call used, if a tick fell into it.
    #[must_use]
    pub(super) fn used(&self) -> Option<Nanos> {
        self.began.map(|began| thread_time().saturating_sub(began))
    }
}

/// CPU time of this thread.
pub(super) fn thread_time() -> Nanos {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(SECOND).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MILLI;

    #[test]
    fn a_thread_that_spins_runs_out_of_time_and_one_that_waits_does_not() {
        let mut deadline = Deadline::default();
        deadline.arm(20 * MILLI);
        assert!(!deadline.tick());
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let _ = receiver.recv_timeout(std::time::Duration::from_millis(50));
        assert!(!deadline.tick(), "waiting is not using");
        while !deadline.tick() {
            std::hint::spin_loop();
        }
        assert!(deadline.expired());
        assert!(deadline.used().is_some_and(|used| used >= 20 * MILLI));
    }
}
