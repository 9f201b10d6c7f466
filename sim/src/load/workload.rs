//! What is asked, as a pure function of the seed.

use super::args::{Api, Traffic};
use super::trace::{Recorded, Trace};
use crate::rng::{Rng, mix};
use crate::text::BYTES_PER_TOKEN;
use std::collections::VecDeque;

/// Sessions of a trace that are under way at once when nothing else is said.
const TRACE_SESSIONS: u64 = 8;
/// Letters of generated words.
const LETTERS: &[u8; 20] = b"abcdefghilmnoprstuvy";

/// A conversation, or a single question, on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// Counts from 0.
    pub id: u64,
    /// Turns taken, the coming one included.
    pub turn: u32,
    /// Its messages as JSON, separated by commas; for the completions API the prompt as plain text.
    said: String,
    /// Tokens to ask for.
    output_tokens: u32,
    /// The recorded turns that are still to come, the next one last.
    recorded: Vec<Recorded>,
}

/// Gives out what to ask next.
#[derive(Debug)]
pub struct Workload {
    api: Api,
    seed: u64,
    prefixes: Vec<String>,
    question_tokens: usize,
    output_tokens: u32,
    hot_share: f64,
    long_share: f64,
    long_tokens: usize,
    /// Conversations under way at once; 0 for single questions.
    sessions: u64,
    turns: u32,
    /// Recorded sessions that have not begun, the next one last; none when text is generated.
    trace: Option<Vec<Vec<Recorded>>>,
    ready: VecDeque<Conversation>,
    begun: u64,
    rng: Rng,
}

impl Workload {
    /// The workload that `traffic` describes, with the sessions of a trace in place of generated ones.
    #[must_use]
    pub fn new(traffic: &Traffic, trace: Option<Trace>) -> Self {
        let sessions = match (&trace, traffic.sessions) {
            (Some(_), 0) => TRACE_SESSIONS,
            (_, sessions) => sessions,
        };
        let prefixes = (0..traffic.groups.max(1))
            .map(|group| text(mix(traffic.seed ^ mix(group.wrapping_add(1))), traffic.prefix_tokens))
            .collect();
        let mut workload = Self {
            api: traffic.api,
            seed: traffic.seed,
            prefixes,
            question_tokens: traffic.question_tokens,
            output_tokens: traffic.output_tokens,
            hot_share: traffic.hot_share,
            long_share: traffic.long_share,
            long_tokens: traffic.long_tokens,
            sessions,
            turns: traffic.turns.max(1),
            trace: trace.map(Trace::into_sessions),
            ready: VecDeque::new(),
            begun: 0,
            rng: Rng::new(mix(traffic.seed)),
        };
        for _ in 0..sessions {
            let fresh = workload.begin();
            workload.ready.extend(fresh);
        }
        workload
    }

    /// Whether turns depend on answers.
    #[must_use]
    pub const fn has_sessions(&self) -> bool {
        self.sessions > 0
    }

    /// The next to send; `None` while every conversation waits for an answer.
    pub fn take(&mut self) -> Option<Conversation> {
        if self.has_sessions() { self.ready.pop_front() } else { self.begin() }
    }

    /// Whether there is nothing to come, whatever is answered; `under_way` are those that have not been given back.
    #[must_use]
    pub fn is_over(&self, under_way: usize) -> bool {
        under_way == 0 && self.ready.is_empty() && self.trace.as_ref().is_some_and(Vec::is_empty)
    }

    /// Continues a conversation after its answer, or begins another in its place when it is over or has failed.
    pub fn give_back(&mut self, mut conversation: Conversation, answer: Option<&str>) {
        if !self.has_sessions() {
            return;
        }
        let next = match answer {
            Some(_) if self.trace.is_some() => {
                conversation.turn += 1;
                self.recorded(conversation).or_else(|| self.begin())
            }
            Some(answer) if conversation.turn < self.turns => {
                conversation.turn += 1;
                self.say(&mut conversation.said, "assistant", answer);
                let question = self.question(conversation.id, conversation.turn);
                self.say(&mut conversation.said, "user", &question);
                Some(conversation)
            }
            _ => self.begin(),
        };
        self.ready.extend(next);
    }

    /// The next recorded turn of a conversation, if there is one.
    fn recorded(&self, mut conversation: Conversation) -> Option<Conversation> {
        let turn = conversation.recorded.pop()?;
        conversation.said.clear();
        self.say(&mut conversation.said, "user", &turn.input);
        conversation.output_tokens = turn.output_tokens;
        Some(conversation)
    }

    /// A new conversation; `None` when all of a trace have begun.
    fn begin(&mut self) -> Option<Conversation> {
        let id = self.begun;
        self.begun += 1;
        if let Some(sessions) = &mut self.trace {
            let recorded = sessions.pop()?;
            let conversation = Conversation { id, turn: 1, said: String::new(), output_tokens: 0, recorded };
            return self.recorded(conversation).or_else(|| self.begin());
        }
        // Sessions take the groups in turn, single questions at random.
        let count = self.prefixes.len().max(1) as u64;
        let group = match self.has_sessions() {
            true => id % count,
            false if self.hot_share > 0.0 && self.rng.unit() < self.hot_share => 0,
            false => self.rng.below(count),
        };
        let prefix = self.prefixes.get(group as usize).cloned().unwrap_or_default();
        let mut said = String::new();
        if !prefix.is_empty() {
            self.say(&mut said, "system", &prefix);
        }
        let is_long = !self.has_sessions() && self.long_share > 0.0 && self.rng.unit() < self.long_share;
        let question = match is_long {
            true => text(mix(self.seed ^ mix(id) ^ 0x5a), self.long_tokens),
            false => self.question(id, 1),
        };
        self.say(&mut said, "user", &question);
        Some(Conversation { id, turn: 1, said, output_tokens: self.output_tokens, recorded: Vec::new() })
    }

    fn question(&self, id: u64, turn: u32) -> String {
        text(mix(self.seed ^ mix(id) ^ (u64::from(turn) << 48) ^ 0xa5), self.question_tokens)
    }

    fn say(&self, said: &mut String, role: &str, content: &str) {
        match self.api {
            Api::Completions => said.push_str(content),
            Api::Chat => {
                if !said.is_empty() {
                    said.push(',');
                }
                // Text that any server may have sent is escaped.
                let content = serde_json::Value::from(content);
                said.push_str(&format!("{{\"role\":\"{role}\",\"content\":{content}}}"));
            }
        }
    }
}

impl Conversation {
    /// Tokens that its next request asks for.
    #[must_use]
    pub fn output_tokens(&self) -> u32 {
        self.output_tokens
    }

    /// The body of its next request.
    #[must_use]
    pub fn body(&self, api: Api, stream: bool, model: &str) -> String {
        let model = serde_json::Value::from(model);
        let stream = if stream { ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" } else { "" };
        let rest = format!("\"max_tokens\":{}{stream}}}", self.output_tokens);
        match api {
            Api::Chat => format!("{{\"model\":{model},\"messages\":[{}],{rest}", self.said),
            Api::Completions => {
                let prompt = serde_json::Value::from(self.said.as_str());
                format!("{{\"model\":{model},\"prompt\":{prompt},{rest}")
            }
        }
    }
}

/// Words of the given length in tokens.
pub(crate) fn text(seed: u64, tokens: usize) -> String {
    let mut rng = Rng::new(seed);
    let mut out = String::with_capacity(tokens * BYTES_PER_TOKEN);
    let mut bits = 0;
    let mut left = 2 + rng.below(8);
    for at in 0..tokens * BYTES_PER_TOKEN {
        if at % 8 == 0 {
            bits = rng.next_u64();
        }
        if left == 0 {
            out.push(' ');
            left = 2 + (bits & 7);
        } else {
            out.push(char::from(
                LETTERS.get((bits & 0xff) as usize % LETTERS.len()).copied().unwrap_or(b'a'),
            ));
            left -= 1;
        }
        bits >>= 8;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        traffic: Traffic,
    }

    fn traffic(line: &str) -> Traffic {
        Line::parse_from(std::iter::once("load").chain(line.split_whitespace())).traffic
    }

    #[test]
    fn the_same_seed_asks_the_same() {
        let traffic = traffic("--groups 2 --prefix-tokens 8 --question-tokens 4");
        let bodies = || {
            let mut workload = Workload::new(&traffic, None);
            (0..10).map(|_| workload.take().unwrap().body(Api::Chat, true, "m")).collect::<Vec<_>>()
        };
        assert_eq!(bodies(), bodies());
        let first: serde_json::Value = serde_json::from_str(&bodies()[0]).unwrap();
        assert_eq!(first["messages"][0]["content"].as_str().unwrap().len(), 32);
        assert_eq!(first["stream_options"]["include_usage"], true);
    }

    #[test]
    fn a_turn_carries_all_before_it() {
        let traffic = traffic("--sessions 1 --turns 2 --prefix-tokens 4 --question-tokens 4");
        let mut workload = Workload::new(&traffic, None);
        let first = workload.take().unwrap();
        assert!(workload.take().is_none());
        workload.give_back(first.clone(), Some("the \"answer\""));
        let second = workload.take().unwrap();
        assert!(second.said.starts_with(&first.said));
        let body: serde_json::Value = serde_json::from_str(&second.body(Api::Chat, true, "m")).unwrap();
        assert_eq!(body["messages"][2]["content"], "the \"answer\"");
        workload.give_back(second, Some("x"));
        assert_eq!(workload.take().unwrap().turn, 1);
    }
}
