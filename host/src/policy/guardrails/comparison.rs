//! A candidate's trial: what is remembered from its beginning, and what is asked of the windows.

use super::{Evidence, Guardrails, Split};
use crate::clock::{Nanos, nanos};
use crate::pool::window::{KEPT, Pulse, Summary, Windows};
use crate::types::Arm;

/// One candidate on trial in one pool.
#[derive(Debug)]
pub struct Comparison {
    arm: Arm,
    split: Split,
    began: Nanos,
    window: Nanos,
    before: Summary,
    pulse_before: Pulse,
}

impl Comparison {
    /// A trial that begins now. The pool as it is now is what it will be compared with, also when the windows have
    /// long forgotten it.
    #[must_use]
    pub fn begin(windows: &Windows, rails: &Guardrails, arm: Arm, split: Split, now: Nanos) -> Self {
        let window = nanos(rails.window).min(KEPT);
        let from = now.saturating_sub(window);
        let (before, pulse_before) = (windows.summary(None, from, now), windows.pulse(from, now));
        Self { arm, split, began: now, window, before, pulse_before }
    }

    /// When it began.
    #[must_use]
    pub fn began(&self) -> Nanos {
        self.began
    }

    /// What is known by now: the pool of the last window, and the arms since the trial began, as far back as windows
    /// reach.
    #[must_use]
    pub fn evidence(&self, windows: &Windows, now: Nanos) -> Evidence {
        let lately = self.began.max(now.saturating_sub(self.window));
        let since = self.began.max(now.saturating_sub(KEPT));
        Evidence {
            split: self.split,
            before: self.before.clone(),
            pulse_before: self.pulse_before,
            now: windows.summary(None, lately, now),
            pulse_now: windows.pulse(lately, now),
            base: windows.summary(Some(Arm::BASE), since, now),
            arm: windows.summary(Some(self.arm), since, now),
        }
    }
}
