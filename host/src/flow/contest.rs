//! Whether several flows have requests under way or waiting, and since when.
//!
//! While that is new a policy cannot know yet what each of them needs. Whoever has much is then put to it even while nobody
//! waits, or the first to come would have filled the pool by the fast way; later the fast way is for all.

use crate::clock::{Nanos, SECOND};

/// How long it is new.
const NEW: Nanos = 10 * SECOND;
/// One flow alone for so long, and it begins anew.
const OVER: Nanos = 10 * SECOND;

/// When flows met.
#[derive(Debug, Default)]
pub(super) struct Contest {
    /// When they met, and were last seen together.
    seen: Option<(Nanos, Nanos)>,
}

impl Contest {
    /// So many flows have something under way or waiting.
    pub(super) fn seen(&mut self, flows: usize, now: Nanos) {
        if flows > 1 {
            let lasts = self.seen.filter(|(_, last)| now.saturating_sub(*last) < OVER);
            self.seen = Some((lasts.map_or(now, |(since, _)| since), now));
        }
    }

    /// Whether flows have met not long ago and are still there.
    pub(super) fn is_new(&self, now: Nanos) -> bool {
        self.seen
            .is_some_and(|(since, last)| now.saturating_sub(since) < NEW && now.saturating_sub(last) < OVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_new_from_the_first_meeting_on_and_again_after_they_parted() {
        let mut contest = Contest::default();
        contest.seen(1, 0);
        assert!(!contest.is_new(0));
        (1..15).for_each(|second| contest.seen(2, second * SECOND));
        assert!(!contest.is_new(14 * SECOND));
        contest.seen(2, 40 * SECOND);
        assert!(contest.is_new(40 * SECOND) && contest.is_new(49 * SECOND) && !contest.is_new(50 * SECOND));
    }
}
