//! What a tenant has used, and what is left.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::bucket::Bucket;
use crate::clock::{Nanos, SECOND};
use crate::config::TenantConfig;

/// Tokens that an answer is expected to have before any has been seen.
const FIRST_GUESS: f64 = 256.0;
/// Weight of one answer in the mean of their lengths.
const NEW_ANSWER: f64 = 0.05;
/// When it is worth while to ask again while too many requests run: nobody knows when one ends.
const RUNNING_RETRY: Nanos = SECOND;

/// A limit of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// `requests_per_minute`
    Requests,
    /// `tokens_per_minute`
    Tokens,
    /// `max_requests`
    Running,
}

impl Limit {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Tokens, Self::Running];

    /// Its key in the configuration, which is its label in metrics too.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests_per_minute",
            Self::Tokens => "tokens_per_minute",
            Self::Running => "max_requests",
        }
    }
}

/// Which limit a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The limit that stands in its way for longest.
    pub limit: Limit,
    /// Its value.
    pub at: u32,
    /// Time until there is room for this request, if nothing else comes.
    pub retry_after: Nanos,
}

/// What a request may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Tokens of its prompt, as far as they are known.
    pub prompt: u32,
    /// The limit on the tokens of its answer that its client set; `Some(0)` where an answer has none.
    pub max_output: Option<u32>,
    /// A hash of the flow within its tenant that it belongs to.
    pub flow: u64,
}

/// What a tenant has used.
#[derive(Debug, Default)]
pub struct Account {
    open: Mutex<Open>,
    entered: AtomicU64,
    exceeded: Counts,
    prompt_tokens: AtomicU64,
    output_tokens: AtomicU64,
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    tokens: AtomicU64,
    running: AtomicU64,
}

impl Counts {
    fn of(&self, limit: Limit) -> &AtomicU64 {
        match limit {
            Limit::Requests => &self.requests,
            Limit::Tokens => &self.tokens,
            Limit::Running => &self.running,
        }
    }
}

#[derive(Debug, Default)]
struct Open {
    /// None until a limit is set.
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    running: u32,
    /// The flows of those that run or wait, and how many each has.
    flows: HashMap<u64, u32>,
    /// Mean length of the answers so far.
    mean_output: Option<f64>,
}

/// The numbers of an [`Account`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    /// Requests that run or wait.
    pub running: u32,
    /// Requests that may come at once; none without a limit.
    pub requests_left: Option<f64>,
    /// Tokens that may come at once, below 0 while there is a debt; none without a limit.
    pub tokens_left: Option<f64>,
}

impl Account {
    pub(super) fn enter(
        account: &Arc<Self>,
        config: &TenantConfig,
        share: Share,
        now: Nanos,
    ) -> Result<Held, Exceeded> {
        let mut open = account.open.lock();
        let reserved = u64::from(share.prompt) + open.expected_output(share.max_output);
        if let Err(exceeded) = open.take(config, reserved, now) {
            account.exceeded.of(exceeded.limit).fetch_add(1, Relaxed);
            return Err(exceeded);
        }
        *open.flows.entry(share.flow).or_default() += 1;
        account.entered.fetch_add(1, Relaxed);
        let Share { prompt, flow, .. } = share;
        Ok(Held { account: Arc::clone(account), reserved, prompt, flow, stage: Stage::Waiting })
    }

    /// What is left at `now`.
    #[must_use]
    pub fn standing(&self, config: &TenantConfig, now: Nanos) -> Standing {
        let open = self.open.lock();
        let left = |bucket: Option<Bucket>, limit: Option<u32>| {
            let limit = limit?;
            let mut bucket = bucket.unwrap_or_else(|| Bucket::full(limit, now));
            bucket.fill(limit, now);
            Some(bucket.level())
        };
        Standing {
            running: open.running,
            requests_left: left(open.requests, config.requests_per_minute),
            tokens_left: left(open.tokens, config.tokens_per_minute),
        }
    }

    /// Flows that have requests which run or wait.
    pub(super) fn flows(&self) -> usize {
        self.open.lock().flows.len()
    }

    /// Requests that were let in.
    #[must_use]
    pub fn entered(&self) -> u64 {
        self.entered.load(Relaxed)
    }

    /// Requests that were refused for a limit.
    #[must_use]
    pub fn exceeded(&self, limit: Limit) -> u64 {
        self.exceeded.of(limit).load(Relaxed)
    }

    /// Tokens of prompts that were computed for it, and of answers that it got.
    #[must_use]
    pub fn tokens(&self) -> (u64, u64) {
        (self.prompt_tokens.load(Relaxed), self.output_tokens.load(Relaxed))
    }
}

impl Open {
    /// Takes a request's part of all limits, or nothing.
    fn take(&mut self, config: &TenantConfig, tokens: u64, now: Nanos) -> Result<(), Exceeded> {
        let running = config.max_requests.filter(|most| self.running >= *most);
        let running = running.map(|at| Exceeded { limit: Limit::Running, at, retry_after: RUNNING_RETRY });
        let requests = wait(&mut self.requests, Limit::Requests, config.requests_per_minute, 1, now);
        let limited = wait(&mut self.tokens, Limit::Tokens, config.tokens_per_minute, tokens, now);
        let longest = [requests, limited, running].into_iter().flatten().max_by_key(|over| over.retry_after);
        if let Some(exceeded) = longest {
            return Err(exceeded);
        }
        if let Some(bucket) = &mut self.requests {
            bucket.take(1);
        }
        self.spend(signed(tokens));
        self.running += 1;
        Ok(())
    }

    /// Tokens that are used, or given back where they are negative.
    fn spend(&mut self, tokens: i64) {
        if let Some(bucket) = &mut self.tokens {
            bucket.take(tokens);
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length; a cast saturates")]
    fn expected_output(&self, limit: Option<u32>) -> u64 {
        let mean = self.mean_output.unwrap_or(FIRST_GUESS).ceil() as u64;
        limit.map_or(mean, |limit| mean.min(limit.into()))
    }

    /// A request of this flow has ended.
    fn leave(&mut self, flow: u64) {
        self.running = self.running.saturating_sub(1);
        if let Entry::Occupied(mut requests) = self.flows.entry(flow) {
            *requests.get_mut() -= 1;
            if *requests.get() == 0 {
                requests.remove();
            }
        }
    }

    fn answered(&mut self, output: u32) {
        let output = f64::from(output);
        let mean = self.mean_output.get_or_insert(output);
        *mean += (output - *mean) * NEW_ANSWER;
    }
}

/// Fills a bucket, and says how far it is from this amount.
fn wait(
    bucket: &mut Option<Bucket>,
    limit: Limit,
    per_minute: Option<u32>,
    amount: u64,
    now: Nanos,
) -> Option<Exceeded> {
    let Some(at) = per_minute else {
        *bucket = None;
        return None;
    };
    let bucket = bucket.get_or_insert_with(|| Bucket::full(at, now));
    bucket.fill(at, now);
    let retry_after = bucket.wait(amount, at);
    (retry_after > 0).then_some(Exceeded { limit, at, retry_after })
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// What a request has taken of its tenant's limits. Dropping it ends the request.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub struct Held {
    account: Arc<Account>,
    reserved: u64,
    prompt: u32,
    flow: u64,
    stage: Stage,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// No engine has it.
    Waiting,
    /// An engine has it, and so many tokens of its answer have come.
    Sent(u32),
    /// It has ended, and used this.
    Ended { prompt: u32, output: u32 },
}

impl Held {
    /// An engine has the request: what it takes is used from now on.
    pub fn sent(&mut self) {
        if let Stage::Waiting = self.stage {
            self.stage = Stage::Sent(0);
        }
    }

    /// Tokens of the answer have come.
    pub fn output(&mut self, tokens: u32) {
        if let Stage::Sent(before) = &mut self.stage {
            *before = before.saturating_add(tokens);
        }
    }

    /// The request has ended, and used this many tokens by the engine's count.
    pub fn settle(mut self, prompt: u32, output: u32) {
        self.stage = Stage::Ended { prompt, output };
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (prompt, output) = match self.stage {
            Stage::Waiting => (0, 0),
            // Its client went away. What an engine did that has sent nothing yet is not known: what was expected.
            Stage::Sent(0) => {
                (self.prompt, u32::try_from(self.reserved - u64::from(self.prompt)).unwrap_or(u32::MAX))
            }
            Stage::Sent(output) => (self.prompt, output),
            Stage::Ended { prompt, output } => (prompt, output),
        };
        let used = u64::from(prompt) + u64::from(output);
        let mut open = self.account.open.lock();
        open.leave(self.flow);
        open.spend(signed(used) - signed(self.reserved));
        if let Stage::Ended { output: 1.., .. } = self.stage {
            open.answered(output);
        }
        drop(open);
        self.account.prompt_tokens.fetch_add(prompt.into(), Relaxed);
        self.account.output_tokens.fetch_add(output.into(), Relaxed);
    }
}
