//! Who asks what, and when.

use crate::load::text as generated;
use crate::rng::{Rng, mix};
use crate::scheduler::Nanos;

/// A request that is due.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Which of the clients asks.
    pub(super) client: usize,
    /// Session and turn, from 1.
    pub(super) session: Option<(u64, u32)>,
    /// Turns that the session has.
    pub(super) turns: u32,
    /// The whole prompt.
    pub(super) prompt: String,
    pub(super) output_tokens: u32,
}

/// A flow of single questions, or a crowd of agents.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Its fairness id.
    pub(super) flow: String,
    /// Under what its requests are reported.
    pub(super) group: &'static str,
    pub(super) kind: Kind,
}

/// How a client asks.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// So many questions a second, at random times whatever is answered.
    Questions { per_second: f64 },
    /// So many sessions that begin within the time, each of `turns` turns with a pause between them.
    Agents { sessions: u64, turns: (u32, u32) },
}

/// Tokens of a question and of its answer.
const QUESTION: usize = 500;
const ANSWER: u32 = 100;
/// Tokens that an agent begins with, and that each turn adds.
const CONTEXT: usize = 1_500;
const RESULT: usize = 200;
/// Seconds that an agent pauses between turns, in the mean.
const PAUSE: f64 = 1.0;

impl Client {
    pub(super) fn questions(flow: impl Into<String>, group: &'static str, per_second: f64) -> Self {
        Self { flow: flow.into(), group, kind: Kind::Questions { per_second } }
    }

    pub(super) fn agents(sessions: u64, turns: (u32, u32)) -> Self {
        Self { flow: String::new(), group: "agents", kind: Kind::Agents { sessions, turns } }
    }

    /// All that it asks of its own accord within `seconds`.
    pub(super) fn begin(&self, client: usize, seconds: f64, seed: u64) -> Vec<(Nanos, Ask)> {
        let mut rng = Rng::new(mix(seed ^ mix(client as u64 + 1)));
        let mut asks = Vec::new();
        match self.kind {
            Kind::Questions { per_second } => {
                let mut at = rng.exponential(1.0 / per_second);
                while at < seconds {
                    let prompt = generated(rng.next_u64(), QUESTION);
                    let ask = Ask { client, session: None, turns: 1, prompt, output_tokens: ANSWER };
                    asks.push((nanos(at), ask));
                    at += rng.exponential(1.0 / per_second);
                }
            }
            Kind::Agents { sessions, turns: (least, most) } => {
                for number in 0..sessions {
                    let turns = least + u32::try_from(rng.below(u64::from(most - least) + 1)).unwrap_or(0);
                    let prompt = generated(rng.next_u64(), CONTEXT);
                    let session = Some((number, 1));
                    let ask = Ask { client, session, turns, prompt, output_tokens: ANSWER };
                    asks.push((nanos(rng.unit() * seconds), ask));
                }
            }
        }
        asks
    }
}

impl Ask {
    /// The next turn of its session after this answer, and after which pause; none when that was the last.
    pub(super) fn next(mut self, answer: &str, seed: u64) -> Option<(Nanos, Self)> {
        let (session, turn) = self.session.filter(|(_, turn)| *turn < self.turns)?;
        let mut rng = Rng::new(mix(seed ^ mix(session) ^ u64::from(turn)));
        self.session = Some((session, turn + 1));
        self.prompt.push_str(answer);
        self.prompt.push_str(&generated(rng.next_u64(), RESULT));
        Some((nanos(rng.exponential(PAUSE)), self))
    }

    pub(super) fn body(&self) -> String {
        serde_json::json!({
            "model": crate::replay::MODEL, "prompt": self.prompt, "max_tokens": self.output_tokens, "stream": true,
        })
        .to_string()
    }
}

fn nanos(seconds: f64) -> Nanos {
    (seconds.max(0.0) * 1e9) as Nanos
}
