//! Which sessions hold the pool's KV caches.
//!
//! A session's context stays in a cache between its turns. When the contexts of all that are active do not fit, each
//! turn displaces what the next one needs, and everybody computes everything again. So a session is let in while its
//! context and those of the active ones fit, and what goes on goes first. It holds its place while a request of it
//! runs and for some time after: four times as long as sessions pause between turns, measured. Contexts grow: what a
//! session is counted for is at least what sessions usually come to, and where the sum is too much all the same, those
//! that came last and rest have to come in again.

use std::collections::{BTreeSet, HashMap};

use crate::clock::{Nanos, SECOND};

/// The least and the longest time for which a session that rests is kept.
const LEAST_HOLD: Nanos = SECOND;
const LONGEST_HOLD: Nanos = 60 * SECOND;
/// The pause between turns that is assumed first.
const USUAL_PAUSE: f64 = 2.0;
/// Weight of the newest pause, and of the newest length of a session, in their moving averages.
const NEWEST: f64 = 0.02;
/// To how many times its first context a session grows, before any has ended.
const GROWTH: u32 = 2;
/// Time after which a request goes although there is no room for its session, and the least time between two that do.
const PATIENCE: Nanos = 30 * SECOND;
const BETWEEN_LATE: Nanos = SECOND;

/// A session, by the digest of its id.
pub type SessionKey = u128;

/// What a request that belongs to a session claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The session.
    pub session: SessionKey,
    /// Tokens that its context will have.
    pub tokens: u32,
}

#[derive(Debug)]
struct Active {
    /// What it is counted for.
    tokens: u32,
    /// What it has come to.
    context: u32,
    /// Sessions that came in before.
    number: u64,
    running: u32,
    /// When its last request ended.
    rested: Nanos,
    until: Nanos,
}

/// The active sessions.
#[derive(Debug)]
pub(super) struct Sessions {
    active: HashMap<SessionKey, Active>,
    /// Those of which nothing runs, by the time until which they are kept.
    resting: BTreeSet<(Nanos, SessionKey)>,
    /// The same by the order in which they came in.
    resting_by_number: BTreeSet<(u64, SessionKey)>,
    tokens: u64,
    capacity: Option<u64>,
    next_number: u64,
    /// Tokens to which sessions come, the moving average; none before one has ended.
    usual: Option<f64>,
    /// When one may go for which there is no room.
    late_from: Nanos,
    /// Seconds, the moving average.
    pause: f64,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            active: HashMap::new(),
            resting: BTreeSet::new(),
            resting_by_number: BTreeSet::new(),
            tokens: 0,
            capacity: None,
            next_number: 0,
            usual: None,
            late_from: 0,
            pause: USUAL_PAUSE,
        }
    }
}

impl Sessions {
    /// Tokens that all caches hold together; none where an engine does not say.
    pub(super) fn set_capacity(&mut self, capacity: Option<u64>) {
        self.capacity = capacity;
    }

    pub(super) fn len(&self) -> usize {
        self.active.len()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    pub(super) fn is_active(&self, session: SessionKey) -> bool {
        self.active.contains_key(&session)
    }

    /// Whether the session of a claim is active, or can be beside the others. The first always can, and one that has
    /// waited for long now and then: nobody starves.
    pub(super) fn fits(&self, claim: Claim, waited: Nanos, now: Nanos) -> bool {
        let Some(capacity) = self.capacity else { return true };
        self.active.is_empty()
            || self.is_active(claim.session)
            || self.tokens.saturating_add(self.expected(claim).into()) <= capacity
            || (waited >= PATIENCE && now >= self.late_from)
    }

    /// What a session is counted for when it comes in.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size, and the cast saturates"
    )]
    fn expected(&self, claim: Claim) -> u32 {
        let usual = self.usual.map_or(claim.tokens.saturating_mul(GROWTH), |usual| usual as u32);
        claim.tokens.max(usual)
    }

    /// Forgets those whose time is over.
    pub(super) fn expire(&mut self, now: Nanos) {
        while let Some((until, session)) = self.resting.first().copied()
            && until <= now
        {
            if let Some(gone) = self.leave(session) {
                let context = f64::from(gone.context);
                self.usual = Some(self.usual.map_or(context, |usual| usual + NEWEST * (context - usual)));
            }
        }
    }

    /// Takes out a session that rests.
    fn leave(&mut self, session: SessionKey) -> Option<Active> {
        let gone = self.active.remove(&session)?;
        self.resting.remove(&(gone.until, session));
        self.resting_by_number.remove(&(gone.number, session));
        self.tokens = self.tokens.saturating_sub(gone.tokens.into());
        Some(gone)
    }

    /// A request of the session runs.
    #[expect(clippy::cast_precision_loss, reason = "a duration")]
    pub(super) fn started(&mut self, claim: Claim, now: Nanos) {
        let expected = self.expected(claim);
        let over = self.capacity.is_some_and(|most| self.tokens.saturating_add(expected.into()) > most);
        if over && !self.is_active(claim.session) && !self.active.is_empty() {
            self.late_from = now.saturating_add(BETWEEN_LATE);
        }
        let number = self.next_number;
        let active = self.active.entry(claim.session).or_insert(Active {
            tokens: 0,
            context: 0,
            number,
            running: 0,
            rested: now,
            until: now,
        });
        let is_new = active.tokens == 0;
        self.next_number += u64::from(is_new);
        if active.running == 0 && self.resting.remove(&(active.until, claim.session)) {
            self.resting_by_number.remove(&(active.number, claim.session));
            let paused = now.saturating_sub(active.rested) as f64 / SECOND as f64;
            self.pause += NEWEST * (paused - self.pause);
        }
        active.running += 1;
        active.context = active.context.max(claim.tokens);
        let counted = if is_new { expected.max(1) } else { claim.tokens };
        let grown = counted.saturating_sub(active.tokens);
        active.tokens += grown;
        self.tokens = self.tokens.saturating_add(grown.into());
        self.shrink();
    }

    /// Where the sum is too much, those that came last and rest have to come in again.
    fn shrink(&mut self) {
        while self.capacity.is_some_and(|capacity| self.tokens > capacity)
            && let Some((_, last)) = self.resting_by_number.last().copied()
        {
            self.leave(last);
        }
    }

    /// A request of the session is done.
    pub(super) fn finished(&mut self, session: SessionKey, now: Nanos) {
        let running = self.active.get_mut(&session).filter(|active| active.running > 0);
        let Some(active) = running else { return };
        active.running -= 1;
        if active.running == 0 {
            active.rested = now;
            active.until = now.saturating_add(hold(self.pause));
            self.resting.insert((active.until, session));
            self.resting_by_number.insert((active.number, session));
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration, and the cast saturates"
)]
fn hold(pause: f64) -> Nanos {
    ((pause * 4e9) as Nanos).clamp(LEAST_HOLD, LONGEST_HOLD)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(session: SessionKey, tokens: u32) -> Claim {
        Claim { session, tokens }
    }

    #[test]
    fn sessions_are_let_in_while_their_contexts_fit() {
        let mut sessions = Sessions::default();
        let fits = |sessions: &Sessions, claim| sessions.fits(claim, 0, 0);
        assert!(fits(&sessions, claim(1, u32::MAX)));
        sessions.set_capacity(Some(100));
        assert!(fits(&sessions, claim(1, 500)), "or it would never be");
        sessions.started(claim(1, 30), 0);
        assert!(!fits(&sessions, claim(2, 25)), "each will grow");
        assert!(fits(&sessions, claim(2, 20)) && fits(&sessions, claim(1, 90)));
        sessions.finished(1, 0);
        sessions.expire(LEAST_HOLD);
        assert!(!fits(&sessions, claim(2, 25)), "it may go on");
        sessions.expire(LONGEST_HOLD);
        assert!(fits(&sessions, claim(2, 50)));
        assert_eq!(sessions.usual, Some(30.0));
    }

    #[test]
    fn where_contexts_outgrow_the_caches_the_last_to_come_has_to_come_in_again() {
        let mut sessions = Sessions::default();
        sessions.set_capacity(Some(100));
        sessions.started(claim(1, 20), 0);
        sessions.started(claim(2, 20), 0);
        sessions.finished(1, 0);
        sessions.finished(2, 0);
        sessions.started(claim(1, 70), 0);
        assert!(sessions.is_active(1) && !sessions.is_active(2));
        assert!(!sessions.fits(claim(2, 40), 0, 0));
    }

    #[test]
    fn who_waits_for_long_goes_now_and_then() {
        let mut sessions = Sessions::default();
        sessions.set_capacity(Some(100));
        sessions.started(claim(1, 100), 0);
        assert!(!sessions.fits(claim(2, 50), PATIENCE - 1, PATIENCE));
        assert!(sessions.fits(claim(2, 50), PATIENCE, PATIENCE));
        sessions.started(claim(2, 50), PATIENCE);
        assert!(!sessions.fits(claim(3, 50), PATIENCE, PATIENCE));
        assert!(sessions.fits(claim(3, 50), PATIENCE, PATIENCE + BETWEEN_LATE));
    }

    #[test]
    fn who_pauses_long_is_kept_longer() {
        let mut sessions = Sessions::default();
        for turn in 0..500 {
            sessions.started(claim(1, 10), turn * 6 * SECOND);
            sessions.finished(1, (turn * 6 + 1) * SECOND);
            sessions.expire((turn * 6 + 5) * SECOND);
        }
        assert!((4.5..5.5).contains(&sessions.pause), "{}", sessions.pause);
        assert_eq!(sessions.len(), 1);
    }

    proptest! {
        #[test]
        fn tokens_are_the_sum_of_the_active(steps in prop::collection::vec((0_u8..3, 0_u128..5, 0_u32..1_000), 0..200)) {
            let mut sessions = Sessions::default();
            sessions.set_capacity(Some(2_000));
            let mut now = 0;
            for (step, session, tokens) in steps {
                match step {
                    0 => sessions.started(claim(session, tokens), now),
                    1 => sessions.finished(session, now),
                    _ => {
                        now += u64::from(tokens) * SECOND / 50;
                        sessions.expire(now);
                    }
                }
                let sum: u64 = sessions.active.values().map(|active| u64::from(active.tokens)).sum();
                prop_assert_eq!(sessions.tokens(), sum);
                prop_assert_eq!(sessions.resting.len(), sessions.resting_by_number.len());
            }
            now += LONGEST_HOLD;
            sessions.expire(now);
            prop_assert!(sessions.active.values().all(|active| active.running > 0));
        }
    }
}
