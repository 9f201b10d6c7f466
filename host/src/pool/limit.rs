//! How many requests an endpoint serves well at once, learned.
//!
//! Two things tell. Requests that wait inside the engine without a break for [`STANDING`] are too many by as much
//! (a queue that comes and goes is none: CoDel's distinction, Nichols and Jacobson 2012). And more requests at once
//! that get no more tokens out are too many, whatever the engine says ([`Throughput`]). As long as neither does and
//! the limit is reached, it grows.

use parking_lot::Mutex;

use super::atomic::AtomicF32;
use super::throughput::Throughput;
use crate::clock::{MILLI, Nanos, SECOND};

/// Requests that an endpoint takes at once before anything is known of it.
pub const START: f32 = 128.0;
/// The same once it has reported for the first time: from then on growth takes no time.
const REPORTING: f32 = 32.0;
/// The greatest limit.
const MOST: f32 = 65_536.0;
/// What waits for so long without a break is a standing queue.
const STANDING: Nanos = 500 * MILLI;
/// The limit of an endpoint that does not report grows no faster than once in this time.
const SLOW: Nanos = 2 * SECOND;
/// Time without growth after a preemption, and after what waited inside the engine was taken back.
const CAUTION: Nanos = 5 * SECOND;
/// Time without growth, after that, of a limit that is not reached because those who wait are not let in so far: trying
/// takes the place that is kept free of them.
const SELDOM: Nanos = 40 * SECOND;
/// From less of a limit nothing is concluded once it was found: what is let in to a part would fill the engine.
const LEAST_PART: f32 = 0.65;
/// Share of the limit from which on it counts as reached.
const REACHED: f32 = 0.95;

/// What is seen of an endpoint at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// When.
    pub at: Nanos,
    /// Requests of ours that run there.
    pub requests: u64,
    /// Share of its limit up to which those who wait are let in, 0 to 1; 1 while nobody waits.
    pub lets_in_to: f32,
    /// Requests that wait inside the engine; NaN where it does not say.
    pub waiting: f32,
    /// Preemptions since it started; NaN where it does not say.
    pub preemptions: f32,
    /// Output tokens that have come from there in all.
    pub output_tokens: u64,
}

/// The learned limit of one endpoint.
#[derive(Debug)]
pub struct Limit {
    requests: AtomicF32,
    state: Mutex<State>,
}

impl Default for Limit {
    fn default() -> Self {
        let requests = AtomicF32::default();
        requests.set(START);
        Self { requests, state: Mutex::default() }
    }
}

/// What is seen between two decisions.
#[derive(Debug, Clone, Copy)]
struct Span {
    since: Nanos,
    /// The least that waited in the engine.
    least_waiting: f32,
    samples: u32,
    /// Those at which something waited.
    waited: u32,
    /// The greatest share of the limit up to which those who wait are let in.
    lets_in_to: f32,
    /// Requests of ours at that time.
    requests_then: f32,
    most_requests: f32,
}

#[derive(Debug, Default)]
struct State {
    span: Option<Span>,
    preemptions: Option<f32>,
    cautious_until: Nanos,
    /// Whether there ever was too much.
    is_found: bool,
    reports: bool,
    /// By how much it grows next.
    step: f32,
    throughput: Throughput,
}

impl Limit {
    /// Requests at once, 1 or more.
    #[must_use]
    pub fn requests(&self) -> f32 {
        self.requests.get()
    }

    /// Learns from what is seen now.
    pub fn learn(&self, seen: &Seen) {
        let mut state = self.state.lock();
        state.throughput.take(seen);
        let mut limit = self.requests();
        limit = state.reports_first(seen, limit);
        limit = state.preempted(seen, limit);
        let span = state.span_with(seen);
        let long = if seen.waiting.is_nan() { SLOW } else { STANDING };
        if seen.at.saturating_sub(span.since) >= long {
            state.span = None;
            limit = state.decide(&span, seen, limit);
        }
        let useful = state.throughput.enough(seen.waiting.is_nan()).unwrap_or(MOST);
        self.requests.set(limit.min(useful).clamp(1.0, MOST));
    }
}

/// Requests that may wait inside an engine: less than one of them, or everybody waits for it there.
fn slack(limit: f32) -> f32 {
    (limit * 0.02).clamp(0.5, 4.0)
}

impl State {
    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
    fn span_with(&mut self, seen: &Seen) -> Span {
        let requests = seen.requests as f32;
        let span = self.span.get_or_insert(Span {
            since: seen.at,
            least_waiting: f32::MAX,
            samples: 0,
            waited: 0,
            lets_in_to: 0.0,
            requests_then: requests,
            most_requests: 0.0,
        });
        span.most_requests = span.most_requests.max(requests);
        span.samples += 1;
        span.waited += u32::from(seen.waiting > 0.0);
        span.lets_in_to = span.lets_in_to.max(seen.lets_in_to);
        if seen.waiting < span.least_waiting {
            span.least_waiting = seen.waiting;
            span.requests_then = requests;
        }
        *span
    }

    /// An engine that reports says soon enough that it can take more.
    #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
    fn reports_first(&mut self, seen: &Seen, limit: f32) -> f32 {
        if self.reports || seen.waiting.is_nan() {
            return limit;
        }
        self.reports = true;
        limit.min(REPORTING.max(seen.requests as f32))
    }

    /// An engine that preempts has more than fits its KV cache.
    fn preempted(&mut self, seen: &Seen, limit: f32) -> f32 {
        let before = self.preemptions.replace(seen.preemptions);
        // A count that falls is that of a new process.
        if before.is_some_and(|before| seen.preemptions > before) {
            self.too_much(seen.at);
            #[expect(clippy::cast_precision_loss, reason = "a number of requests")]
            return limit.min(seen.requests as f32).max(1.0) * 0.9;
        }
        limit
    }

    fn decide(&mut self, span: &Span, seen: &Seen, limit: f32) -> f32 {
        let standing = if span.least_waiting == f32::MAX { 0.0 } else { span.least_waiting };
        if standing > slack(limit) {
            self.too_much(seen.at);
            // What others have put there waits too: our part is never taken for more than it is.
            return limit.min((span.requests_then - standing).max(1.0) + slack(limit));
        }
        // What waits more often than not may be the beginning of a queue that stands.
        if span.waited * 2 > span.samples || !self.may_grow(span, seen, limit) {
            return limit;
        }
        if span.waited > 0 {
            self.step = 1.0;
        }
        limit + self.step(seen, limit)
    }

    fn may_grow(&mut self, span: &Span, seen: &Seen, limit: f32) -> bool {
        let rests_until = if span.most_requests >= limit * REACHED {
            self.cautious_until
        } else if !self.is_found && span.most_requests >= limit * span.lets_in_to {
            // Nothing was found yet: there is nobody to be spared.
            0
        } else if span.most_requests >= limit * span.lets_in_to.max(LEAST_PART) {
            self.cautious_until.saturating_add(SELDOM)
        } else {
            self.step = 1.0;
            return false;
        };
        seen.at >= rests_until
    }

    fn too_much(&mut self, at: Nanos) {
        self.is_found = true;
        self.cautious_until = at.saturating_add(CAUTION);
        self.step = 1.0;
    }

    /// By how much it grows now. What is too much fills at once with whatever waits most, and stands before all others
    /// inside the engine: so one more is tried at first, and twice as many with each time that this did no harm.
    fn step(&mut self, seen: &Seen, limit: f32) -> f32 {
        if seen.waiting.is_nan() {
            return (limit * 0.1).max(1.0);
        }
        let step = self.step.clamp(1.0, (limit * 0.25).max(1.0));
        self.step = step * 2.0;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An engine that runs `room` requests at once, each a token in `tpot` at whatever load, asked every 100 ms
    /// while `offered` requests want to go there.
    struct Engine {
        limit: Limit,
        room: f32,
        at: Nanos,
        tokens: f32,
        reports: bool,
        lets_in_to: f32,
    }

    impl Engine {
        fn new(room: f32, reports: bool) -> Self {
            Self { limit: Limit::default(), room, at: 0, tokens: 0.0, reports, lets_in_to: 1.0 }
        }

        fn serve(&mut self, seconds: u32, offered: f32) -> f32 {
            (0..seconds * 10).for_each(|_| self.tenth(offered));
            self.limit.requests()
        }

        fn tenth(&mut self, offered: f32) {
            self.at += 100 * MILLI;
            let let_in = (self.limit.requests() * self.lets_in_to).ceil().min(self.limit.requests().floor());
            let requests = let_in.min(offered);
            self.tokens += requests.min(self.room) * 10.0;
            self.limit.learn(&Seen {
                at: self.at,
                requests: requests as u64,
                lets_in_to: self.lets_in_to,
                waiting: if self.reports { (requests - self.room).max(0.0) } else { f32::NAN },
                preemptions: f32::NAN,
                output_tokens: self.tokens as u64,
            });
        }
    }

    #[test]
    fn a_standing_queue_in_the_engine_is_brought_here() {
        let mut engine = Engine::new(24.0, true);
        let limit = engine.serve(5, 1_000.0);
        assert!((24.0..=26.0).contains(&limit), "{limit}");
        // It stays there.
        let limit = engine.serve(60, 1_000.0);
        assert!((24.0..=29.0).contains(&limit), "{limit}");
    }

    #[test]
    fn it_grows_while_the_engine_takes_everything() {
        let mut engine = Engine::new(700.0, true);
        let limit = engine.serve(12, 10_000.0);
        assert!((690.0..=715.0).contains(&limit), "{limit}");
    }

    #[test]
    fn it_grows_for_those_who_are_let_in_to_a_part_of_it_only() {
        let mut engine = Engine { lets_in_to: 0.8, ..Engine::new(200.0, true) };
        let limit = engine.serve(12, 1_000.0);
        assert!((200.0..=260.0).contains(&limit), "{limit}");
        // Once it is known that is seldom tried.
        let limit = engine.serve(15, 1_000.0);
        let more = (0..200).filter(|_| {
            engine.tenth(1_000.0);
            engine.limit.requests() > limit
        });
        assert_eq!(more.count(), 0);
    }

    #[test]
    fn an_engine_that_takes_more_later_is_found_out() {
        let mut engine = Engine::new(24.0, true);
        engine.serve(10, 1_000.0);
        engine.room = 100.0;
        let limit = engine.serve(20, 1_000.0);
        assert!((95.0..=110.0).contains(&limit), "{limit}");
    }

    #[test]
    fn it_is_not_raised_by_what_was_never_tried() {
        assert_eq!(Engine::new(700.0, true).serve(60, 10.0), REPORTING);
    }

    #[test]
    fn an_engine_that_reports_nothing_is_known_by_its_throughput() {
        let limit = Engine::new(8.0, false).serve(240, 1_000.0);
        assert!((7.0..=17.0).contains(&limit), "{limit}");
        let limit = Engine::new(300.0, false).serve(240, 1_000.0);
        assert!((240.0..=520.0).contains(&limit), "{limit}");
    }

    #[test]
    fn a_queue_that_comes_and_goes_is_none() {
        let limit = Limit::default();
        for n in 0..100_u64 {
            let waiting = if n.is_multiple_of(2) { 50.0 } else { 0.0 };
            let seen = Seen {
                at: n * 100 * MILLI,
                requests: 20,
                lets_in_to: 1.0,
                waiting,
                preemptions: f32::NAN,
                output_tokens: n,
            };
            limit.learn(&seen);
        }
        assert_eq!(limit.requests(), REPORTING);
    }

    #[test]
    fn it_grows_by_one_where_something_waits_now_and_then_and_not_where_it_does_more_often() {
        let grown = |waits: fn(u64) -> bool| {
            let limit = Limit::default();
            for n in 0..60_u64 {
                let waiting = if waits(n) { 3.0 } else { 0.0 };
                let requests = if n == 0 { 1 } else { limit.requests() as u64 };
                let at = n * 100 * MILLI;
                let preemptions = f32::NAN;
                limit.learn(&Seen {
                    at,
                    requests,
                    lets_in_to: 1.0,
                    waiting,
                    preemptions,
                    output_tokens: n * 10_000,
                });
            }
            limit.requests()
        };
        let seldom = grown(|n| n.is_multiple_of(4));
        assert!((36.0..=44.0).contains(&seldom), "{seldom}");
        assert_eq!(grown(|n| !n.is_multiple_of(4)), REPORTING);
    }

    #[test]
    fn preemptions_lower_it_and_a_new_process_does_not() {
        let limit = Limit::default();
        let seen = |at: u64, preemptions| Seen {
            at: at * 100 * MILLI,
            requests: 100,
            lets_in_to: 1.0,
            waiting: 0.0,
            preemptions,
            output_tokens: 0,
        };
        limit.learn(&seen(1, 5.0));
        assert_eq!(limit.requests(), 100.0);
        limit.learn(&seen(2, 7.0));
        assert_eq!(limit.requests(), 90.0);
        limit.learn(&seen(3, 0.0));
        assert_eq!(limit.requests(), 90.0);
    }

    #[test]
    fn clocks_that_jump_do_no_harm() {
        let limit = Limit::default();
        for at in [0, u64::MAX, 5, u64::MAX / 2, 1] {
            limit.learn(&Seen {
                at,
                requests: u64::MAX,
                lets_in_to: 1.0,
                waiting: 1e30,
                preemptions: 1e30,
                output_tokens: at,
            });
            assert!((1.0..=MOST).contains(&limit.requests()));
        }
    }
}
