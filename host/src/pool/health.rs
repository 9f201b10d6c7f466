//! Whether an endpoint can be used.
//!
//! Two witnesses speak: probes (scraping) and traffic. Either can call an endpoint up again. A refused
//! connection takes it down at once, other failed probes after [`PROBES`] in a row. What was never
//! probed is usable, so that a proxy works from its first moment on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use super::atomic::AtomicF32;
use crate::clock::{Nanos, SECOND};

/// Failed probes in a row that take an endpoint down.
pub const PROBES: u32 = 3;

/// After this time without a word from a probe an endpoint that is down is tried by traffic again.
pub const RETRY_AFTER: Nanos = 10 * SECOND;

/// Why an endpoint is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A probe's connection was refused.
    Refused,
    /// [`PROBES`] probes in a row failed.
    Probes,
    /// A request could not be sent.
    Connect,
}

/// What is believed of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "status")]
pub enum Status {
    /// Never probed; usable.
    Unknown,
    /// Usable.
    Up,
    /// Not usable.
    Down {
        /// Since when, without interruption.
        since: Nanos,
        /// What was seen first.
        why: Why,
    },
}

/// The low bits of [`Health::state`] say which status, the others since when.
const BITS: u32 = 3;
const UNKNOWN: u64 = 0;
const UP: u64 = 1;
const REFUSED: u64 = 2;
const FAILED: u64 = 3;
const CONNECT: u64 = 4;

/// Health of one endpoint.
#[derive(Debug, Default)]
pub struct Health {
    state: AtomicU64,
    /// When it was last seen to be down.
    confirmed: AtomicU64,
    failed_probes: AtomicU32,
    lost: AtomicU32,
    success: AtomicF32,
    error: Mutex<Box<str>>,
}

impl Health {
    /// What is believed.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.state.load(Ordering::Relaxed);
        let since = state >> BITS;
        match state & ((1 << BITS) - 1) {
            UNKNOWN => Status::Unknown,
            UP => Status::Up,
            REFUSED => Status::Down { since, why: Why::Refused },
            FAILED => Status::Down { since, why: Why::Probes },
            _ => Status::Down { since, why: Why::Connect },
        }
    }

    /// Whether requests may go there: not down, or down for [`RETRY_AFTER`] without anybody having
    /// looked since.
    #[must_use]
    pub fn usable(&self, now: Nanos) -> bool {
        !matches!(self.status(), Status::Down { .. })
            || now.saturating_sub(self.confirmed.load(Ordering::Relaxed)) >= RETRY_AFTER
    }

    /// Moving share of requests that succeeded; NaN before the first.
    #[must_use]
    pub fn success_ratio(&self) -> f32 {
        self.success.get()
    }

    /// How often it went down because nobody listened there: what the process before knew is gone.
    #[must_use]
    pub fn lost(&self) -> u32 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The latest error, in words; empty when there was none.
    #[must_use]
    pub fn last_error(&self) -> Box<str> {
        self.error.lock().clone()
    }

    /// A probe was answered. True when that is news.
    pub fn probe_ok(&self) -> bool {
        self.failed_probes.store(0, Ordering::Relaxed);
        self.up()
    }

    /// A probe failed; `refused` when nobody listens there. True when the endpoint went down by it.
    pub fn probe_failed(&self, now: Nanos, refused: bool, error: &str) -> bool {
        *self.error.lock() = error.into();
        let failed = self.failed_probes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        match refused {
            true => self.down(now, REFUSED),
            false if failed >= PROBES => self.down(now, FAILED),
            false => {
                if matches!(self.status(), Status::Down { .. }) {
                    self.confirmed.store(now, Ordering::Relaxed);
                }
                false
            }
        }
    }

    /// A request was answered. True when that brought the endpoint up.
    pub fn reached(&self) -> bool {
        self.up()
    }

    /// A request was served.
    pub fn request_ok(&self) {
        self.success.average(1.0);
    }

    /// A request failed after it was sent (a 5xx, a broken stream, a timeout).
    pub fn request_failed(&self, error: &str) {
        self.success.average(0.0);
        *self.error.lock() = error.into();
    }

    /// A request could not be sent. True when the endpoint went down by it.
    pub fn connect_failed(&self, now: Nanos, error: &str) -> bool {
        self.success.average(0.0);
        *self.error.lock() = error.into();
        self.down(now, CONNECT)
    }

    fn up(&self) -> bool {
        // Most calls change nothing; they must not take the cache line from those who read it.
        self.state.load(Ordering::Relaxed) != UP && self.state.swap(UP, Ordering::Relaxed) != UP
    }

    fn down(&self, now: Nanos, why: u64) -> bool {
        self.confirmed.store(now, Ordering::Relaxed);
        let down = (now << BITS) | why;
        let usable = |state: u64| matches!(state & ((1 << BITS) - 1), UNKNOWN | UP);
        let news = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| usable(state).then_some(down))
            .is_ok();
        if news && matches!(why, REFUSED | CONNECT) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_probed_is_usable() {
        let health = Health::default();
        assert_eq!(health.status(), Status::Unknown);
        assert!(health.usable(0));
    }

    #[test]
    fn a_refused_connection_takes_it_down_at_once() {
        let health = Health::default();
        assert!(health.probe_ok());
        assert!(!health.probe_ok());
        assert!(health.probe_failed(5, true, "refused"));
        assert_eq!(health.status(), Status::Down { since: 5, why: Why::Refused });
        assert!(!health.usable(6));
        assert!(!health.probe_failed(9, true, "refused"));
        assert_eq!(health.status(), Status::Down { since: 5, why: Why::Refused });
        assert_eq!(&*health.last_error(), "refused");
        assert_eq!(health.lost(), 1);
    }

    #[test]
    fn other_failures_take_three_in_a_row() {
        let health = Health::default();
        assert!(!health.probe_failed(1, false, "slow"));
        assert!(!health.probe_failed(2, false, "slow"));
        health.probe_ok();
        assert!(!health.probe_failed(3, false, "slow"));
        assert!(!health.probe_failed(4, false, "slow"));
        assert!(health.probe_failed(5, false, "slow"));
        assert_eq!(health.status(), Status::Down { since: 5, why: Why::Probes });
        assert_eq!(health.lost(), 0);
    }

    #[test]
    fn traffic_takes_it_down_and_up() {
        let health = Health::default();
        assert!(health.reached());
        health.request_ok();
        assert!((health.success_ratio() - 1.0).abs() < 1e-6);
        assert!(health.connect_failed(7, "refused"));
        assert!(health.success_ratio() < 1.0);
        assert!(!health.usable(8));
        assert!(health.reached());
        assert_eq!(health.status(), Status::Up);
        health.request_failed("500");
        assert!(health.usable(9));
    }

    #[test]
    fn what_nobody_looks_at_is_tried_again() {
        let health = Health::default();
        health.connect_failed(0, "refused");
        assert!(!health.usable(RETRY_AFTER - 1));
        assert!(health.usable(RETRY_AFTER));
        health.probe_failed(RETRY_AFTER, false, "slow");
        assert!(!health.usable(RETRY_AFTER + 1));
    }
}
