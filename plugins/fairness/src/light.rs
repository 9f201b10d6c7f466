//! Room for flows that do not wait.
//!
//! A flow that always has more to send takes every place that falls free, and whoever comes for a moment has to wait for
//! the next one, however little it asks for. So as many places as flows without a backlog have needed of late stay free
//! of those that have one.

/// How long what was needed is remembered, at least; twice as long at most.
const REMEMBERED_MS: u64 = 5_000;

/// What a band's flows without a backlog have under way, and had at most of late.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Light {
    running: u32,
    most: u32,
    most_before: u32,
    since_ms: u64,
}

impl Light {
    /// One request is on its way.
    pub(crate) fn started(&mut self, now_ms: u64) {
        self.running += 1;
        self.turn(now_ms);
        self.most = self.most.max(self.running);
    }

    /// One has ended; whether it was counted.
    pub(crate) fn ended(&mut self) -> bool {
        let was = self.running > 0;
        self.running = self.running.saturating_sub(1);
        was
    }

    /// A flow that was counted has a backlog now.
    pub(crate) fn without(&mut self, flow: &Self) {
        let most = flow.most.max(flow.most_before);
        self.running = self.running.saturating_sub(flow.running);
        self.most = self.most.saturating_sub(most).max(self.running);
        self.most_before = self.most_before.saturating_sub(most);
    }

    /// How many more they may need soon.
    pub(crate) fn may_need(&mut self, now_ms: u64) -> u32 {
        self.turn(now_ms);
        self.most.max(self.most_before).saturating_sub(self.running)
    }

    fn turn(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.since_ms);
        if passed >= REMEMBERED_MS {
            self.most_before = if passed >= 2 * REMEMBERED_MS { self.running } else { self.most };
            self.most = self.running;
            self.since_ms = now_ms;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_needed_of_late_is_kept_free() {
        let mut light = Light::default();
        (0..5).for_each(|_| light.started(10_000));
        assert!((0..4).all(|_| light.ended()));
        assert_eq!(light.may_need(10_001), 4);
        assert_eq!(light.may_need(10_001 + REMEMBERED_MS), 4);
        assert_eq!(light.may_need(10_001 + 3 * REMEMBERED_MS), 0);
    }

    #[test]
    fn who_has_a_backlog_needs_no_room() {
        let (mut all, mut one) = (Light::default(), Light::default());
        (0..5).for_each(|_| all.started(0));
        for _ in 0..50 {
            all.started(1);
            one.started(1);
        }
        assert!((0..20).all(|_| all.ended()));
        assert!((0..20).all(|_| one.ended()));
        all.without(&one);
        assert_eq!((all.running, all.may_need(2)), (5, 0));
        all.ended();
        assert_eq!(all.may_need(3), 1);
    }
}
