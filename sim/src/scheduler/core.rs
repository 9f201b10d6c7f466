//! The engine's state and its course through time; what goes into a step is in `plan`.

use super::cache::BlockCache;
use super::config::{Config, Nanos};
use super::event::{Event, Finish};
use super::journal::Change;
use super::lease::{LeaseState, Leases, Pinned};
use super::plan::Step;
use super::sequence::{Request, Sequence, SequenceId, Transfer};
use super::stats::Stats;
use crate::text::next_hash;
use std::collections::VecDeque;

/// What an engine is doing right now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gauges {
    /// Sequences in the batch.
    pub running: usize,
    /// Sequences that wait for room.
    pub waiting: usize,
    /// Sequences that wait for their cache from another engine.
    pub fetching: usize,
    /// Share of the blocks that have a user, 0 to 1.
    pub kv_usage: f64,
    /// Blocks without a user.
    pub blocks_free: usize,
    /// Blocks that can be found by a hash.
    pub blocks_cached: usize,
    /// Leases that hold.
    pub leases: usize,
}

/// The scheduler of one engine.
#[derive(Debug)]
pub struct Core {
    pub(super) config: Config,
    pub(super) cache: BlockCache,
    pub(super) leases: Leases,
    pub(super) waiting: VecDeque<Sequence>,
    /// Sequences under way from another engine, with the time of their arrival.
    pub(super) fetching: Vec<(Nanos, Sequence)>,
    /// Arrived, and not yet in the batch.
    pub(super) fetched: VecDeque<Sequence>,
    pub(super) running: Vec<Sequence>,
    pub(super) step: Option<Step>,
    pub(super) stats: Stats,
    next_id: SequenceId,
}

impl Core {
    /// An idle engine with an empty cache.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            cache: BlockCache::new(config.num_blocks),
            leases: Leases::default(),
            waiting: VecDeque::new(),
            fetching: Vec::new(),
            fetched: VecDeque::new(),
            running: Vec::new(),
            step: None,
            stats: Stats::default(),
            next_id: 0,
            config,
        }
    }

    /// Puts a request at the end of the queue. Call [`Core::advance`] with the same `now` before, so that the steps
    /// that have ended by now do not see it.
    ///
    /// The caller has checked that prompt and answer together fit [`Config::longest`]; what does not is cut.
    pub fn submit(&mut self, now: Nanos, mut request: Request) -> SequenceId {
        let id = self.next_id;
        self.next_id += 1;
        let longest = self.config.longest();
        request.prompt.truncate(longest);
        let room = longest - request.prompt.len();
        request.max_output = request.max_output.min(u32::try_from(room).unwrap_or(u32::MAX));
        self.waiting.push_back(Sequence::new(id, request, self.config.block_size, now));
        if self.step.is_none() {
            self.plan(now);
        }
        id
    }

    /// Gives up a sequence; false when it has ended already.
    pub fn abort(&mut self, id: SequenceId, now: Nanos) -> bool {
        let Some(sequence) = self.remove(id) else { return false };
        self.cache.release(&sequence.blocks);
        self.stats.aborted += 1;
        if self.step.is_none() {
            self.plan(now);
        }
        true
    }

    /// When there is something to do next, if nothing new comes.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let step = self.step.as_ref().map(|step| step.end);
        let fetch = self.fetching.iter().map(|(at, _)| *at).min();
        [step, fetch, self.leases.next_expiry()].into_iter().flatten().min()
    }

    /// Does all that is due up to `now`, each thing at its own time, and appends what happened to `out`.
    pub fn advance(&mut self, now: Nanos, out: &mut Vec<Event>) {
        while let Some(at) = self.next_wake()
            && at <= now
        {
            self.stats.leases_expired += self.leases.expire(at, &mut self.cache);
            self.receive(at, out);
            if let Some(step) = self.step.take_if(|step| step.end <= at) {
                self.complete(step, out);
            }
            if self.step.is_none() {
                self.plan(at);
            }
        }
    }

    /// What the engine is doing.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let total = self.cache.total().max(1);
        Gauges {
            running: self.running.len(),
            waiting: self.waiting.len(),
            fetching: self.fetching.len() + self.fetched.len(),
            kv_usage: (total - self.cache.free()) as f64 / total as f64,
            blocks_free: self.cache.free(),
            blocks_cached: self.cache.cached(),
            leases: self.leases.len(),
        }
    }

    /// What the engine has counted.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Its sizes and speeds.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What became of the blocks kept for `id`; one that holds is renewed, as by a decode engine's heartbeat.
    pub fn lease(&mut self, id: &str, now: Nanos) -> LeaseState {
        self.leases.renew(id, now + self.config.lease);
        self.leases.state(id)
    }

    /// What became of the blocks kept for `id`.
    #[must_use]
    pub fn lease_state(&self, id: &str) -> LeaseState {
        self.leases.state(id)
    }

    /// Lets go of the blocks kept for `id`; false when there are none.
    pub fn release_lease(&mut self, id: &str, now: Nanos) -> bool {
        let released = self.leases.release(id, &mut self.cache);
        if released && self.step.is_none() {
            self.plan(now);
        }
        released
    }

    /// From now on changes of the cache are kept until [`Core::take_changes`].
    pub fn keep_changes(&mut self) {
        self.cache.journal.keep();
    }

    /// What has changed in the cache since the last time.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.cache.journal.take()
    }

    /// Forgets what is cached and not in use.
    pub fn clear_cache(&mut self) {
        self.cache.clear();
    }

    fn remove(&mut self, id: SequenceId) -> Option<Sequence> {
        if let Some(at) = self.running.iter().position(|s| s.id == id) {
            return Some(self.running.remove(at));
        }
        if let Some(at) = self.waiting.iter().position(|s| s.id == id) {
            return self.waiting.remove(at);
        }
        if let Some(at) = self.fetched.iter().position(|s| s.id == id) {
            return self.fetched.remove(at);
        }
        let at = self.fetching.iter().position(|(_, s)| s.id == id)?;
        Some(self.fetching.swap_remove(at).1)
    }

    /// Takes in the sequences whose cache has arrived by `at`. Their last token is computed here, as in vLLM.
    fn receive(&mut self, at: Nanos, out: &mut Vec<Event>) {
        let mut arrived: Vec<(Nanos, Sequence)> =
            self.fetching.extract_if(.., |(due, _)| *due <= at).collect();
        arrived.sort_by_key(|(due, sequence)| (*due, sequence.id));
        for (_, mut sequence) in arrived {
            sequence.computed = sequence.prompt_len().saturating_sub(1);
            self.publish(&mut sequence, 0);
            out.push(Event::Fetched { id: sequence.id });
            self.fetched.push_back(sequence);
        }
    }

    /// Ends a step: what was computed counts, and whoever is up to date has a new token.
    fn complete(&mut self, step: Step, out: &mut Vec<Event>) {
        self.stats.steps += 1;
        for (id, tokens) in step.work {
            // It may have been given up meanwhile.
            let Some(at) = self.running.iter().position(|s| s.id == id) else { continue };
            let Some(sequence) = self.running.get_mut(at) else { continue };
            sequence.computed += tokens;
            if sequence.todo() > 0 {
                continue;
            }
            if sequence.request.max_output > 0 {
                let token = sequence.sample(self.config.block_size);
                self.stats.generation_tokens += 1;
                match sequence.first_token {
                    None => {
                        sequence.first_token = Some(step.end);
                        self.stats.ttft.observe(step.end - sequence.arrived);
                        let started = sequence.started.unwrap_or(sequence.arrived);
                        self.stats.prefill.observe(step.end - started);
                    }
                    Some(_) => self.stats.inter_token.observe(step.end - sequence.last_token),
                }
                sequence.last_token = step.end;
                out.push(Event::Token { id, token, at: step.end });
            }
            if sequence.is_complete() {
                let sequence = self.running.remove(at);
                self.finish(sequence, step.end, out);
            }
        }
    }

    fn finish(&mut self, sequence: Sequence, at: Nanos, out: &mut Vec<Event>) {
        let finish = if sequence.request.natural_end {
            self.stats.finished_stop += 1;
            Finish::Stop
        } else {
            self.stats.finished_length += 1;
            Finish::Length
        };
        self.stats.e2e.observe(at - sequence.arrived);
        if let Some(first) = sequence.first_token {
            self.stats.decode.observe(at - first);
        }
        let usage = sequence.usage();
        let pinned = match &sequence.request.transfer {
            Transfer::Export(name) => {
                let pinned = Pinned {
                    blocks: sequence.blocks.clone(),
                    tokens: usage.prompt,
                    prompt: next_hash(sequence.request.seed, &sequence.request.prompt),
                    expires: at + self.config.lease,
                };
                self.leases.insert(name.clone(), pinned.clone(), &mut self.cache);
                Some(pinned)
            }
            Transfer::None | Transfer::Import => {
                self.cache.release(&sequence.blocks);
                None
            }
        };
        out.push(Event::Finished { id: sequence.id, finish, usage, pinned, at });
    }
}
