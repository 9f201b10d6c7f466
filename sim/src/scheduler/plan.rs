//! What goes into the next step: vLLM's V1 `schedule()`.
//!
//! First the sequences that run, in order; when blocks run out, the last of them is set back to the head of the queue.
//! Then, if nobody had to be set back, what waits, strictly in order, while there is room.

use super::config::Nanos;
use super::core::Core;
use super::sequence::{Sequence, SequenceId, Transfer};

/// A step under way.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) end: Nanos,
    /// Sequences with the tokens computed for each.
    pub(super) work: Vec<(SequenceId, usize)>,
}

/// A step as it fills.
#[derive(Default)]
struct Batch {
    work: Vec<(SequenceId, usize)>,
    budget: usize,
    prefill: usize,
    decode: usize,
}

impl Batch {
    fn add(&mut self, sequence: &Sequence, tokens: usize) {
        self.budget -= tokens;
        if sequence.is_decoding() {
            self.decode += 1;
        } else {
            self.prefill += tokens;
        }
        self.work.push((sequence.id, tokens));
    }
}

impl Core {
    /// Starts a step at `now`, if there is anything that can be computed.
    pub(super) fn plan(&mut self, now: Nanos) {
        let mut batch = Batch { budget: self.config.max_num_batched_tokens.max(1), ..Batch::default() };
        let set_back = self.continue_running(&mut batch);
        if !set_back || batch.work.is_empty() {
            self.admit(now, &mut batch);
        }
        if !batch.work.is_empty() {
            let end = now + self.config.step_time(batch.prefill, batch.decode);
            self.step = Some(Step { end, work: batch.work });
        }
    }

    /// Returns whether a sequence was set back.
    fn continue_running(&mut self, batch: &mut Batch) -> bool {
        let mut set_back = false;
        let mut at = 0;
        while batch.budget > 0 && at < self.running.len() {
            let mut sequence = self.running.remove(at);
            let tokens = sequence.todo().min(batch.budget);
            while !self.grow(&mut sequence, tokens) {
                set_back = true;
                // The last to come is the first to go, and that may be this one.
                let after = if self.running.len() > at { self.running.pop() } else { None };
                let Some(last) = after else {
                    self.set_back(sequence);
                    return true;
                };
                self.set_back(last);
            }
            batch.add(&sequence, tokens);
            self.running.insert(at, sequence);
            at += 1;
        }
        set_back
    }

    fn admit(&mut self, now: Nanos, batch: &mut Batch) {
        while batch.budget > 0 && self.running.len() < self.config.max_num_seqs {
            let Some(mut sequence) = self.fetched.pop_front() else { break };
            let tokens = sequence.todo().min(batch.budget);
            self.account(&mut sequence, now);
            batch.add(&sequence, tokens);
            self.running.push(sequence);
        }
        while let Some(mut sequence) = self.waiting.pop_front() {
            let fetches = sequence.request.transfer == Transfer::Import && sequence.external == 0;
            let room = fetches || (batch.budget > 0 && self.running.len() < self.config.max_num_seqs);
            if !room || !self.start(&mut sequence) {
                self.waiting.push_front(sequence);
                break;
            }
            if fetches {
                self.fetch(sequence, now);
                continue;
            }
            let tokens = sequence.todo().min(batch.budget);
            if !self.grow(&mut sequence, tokens) {
                self.set_back(sequence);
                break;
            }
            self.account(&mut sequence, now);
            batch.add(&sequence, tokens);
            self.running.push(sequence);
        }
    }

    /// Takes the cached blocks of a sequence, if the rest of it finds room too (vLLM's `reserve_full_isl`).
    fn start(&mut self, sequence: &mut Sequence) -> bool {
        let size = self.config.block_size;
        let (hits, idle) = self.cache.lookup(sequence.findable(size));
        let missing = sequence.tokens.len().div_ceil(size) - hits;
        if missing + idle > self.cache.free() {
            return false;
        }
        let shared: Vec<_> =
            sequence.findable(size).iter().take(hits).filter_map(|hash| self.cache.share(*hash)).collect();
        sequence.blocks = shared;
        sequence.published = hits;
        sequence.computed = hits * size;
        true
    }

    /// Begins to fetch what is missing of the prompt. Its blocks are taken at once; room for them was checked.
    fn fetch(&mut self, mut sequence: Sequence, now: Nanos) {
        let wanted = sequence.prompt_len().div_ceil(self.config.block_size);
        while sequence.blocks.len() < wanted
            && let Some(block) = self.cache.allocate()
        {
            sequence.blocks.push(block);
        }
        sequence.external = (sequence.prompt_len() - sequence.computed).max(1);
        sequence.cached = sequence.computed;
        self.stats.external_queries += sequence.external as u64;
        let due = now + self.config.transfer_time(sequence.external);
        self.fetching.push((due, sequence));
    }

    /// Counts a sequence that enters the batch for the first time.
    fn account(&mut self, sequence: &mut Sequence, now: Nanos) {
        if sequence.started.is_some() {
            return;
        }
        sequence.started = Some(now);
        let prompt = sequence.prompt_len();
        let local = if sequence.external > 0 { sequence.cached } else { sequence.computed };
        sequence.cached = local + sequence.external;
        let stats = &mut self.stats;
        stats.queue.observe(now - sequence.arrived);
        stats.prompt_tokens += prompt as u64;
        stats.prefix_queries += prompt as u64;
        stats.prefix_hits += local as u64;
        stats.local_cache_hit += local as u64;
        stats.external_kv_transfer += sequence.external as u64;
        stats.local_compute += prompt.saturating_sub(sequence.cached) as u64;
    }

    /// Gives a sequence the blocks for its next `tokens`; what becomes full can be found from now on, as in vLLM.
    fn grow(&mut self, sequence: &mut Sequence, tokens: usize) -> bool {
        let wanted = (sequence.computed + tokens).div_ceil(self.config.block_size);
        let missing = wanted.saturating_sub(sequence.blocks.len());
        if missing > self.cache.free() {
            return false;
        }
        for _ in 0..missing {
            let Some(block) = self.cache.allocate() else { return false };
            sequence.blocks.push(block);
        }
        self.publish(sequence, tokens);
        true
    }

    /// Makes the full blocks among the first `computed + tokens` tokens findable.
    pub(super) fn publish(&mut self, sequence: &mut Sequence, tokens: usize) {
        let full = (sequence.computed + tokens) / self.config.block_size;
        let size = self.config.block_size;
        let blocks = sequence.blocks.iter().zip(&sequence.hashes).zip(sequence.tokens.chunks_exact(size));
        for (place, ((block, hash), tokens)) in blocks.enumerate().take(full).skip(sequence.published) {
            if self.cache.publish(*block, *hash) && self.cache.journal.is_kept() {
                self.cache.journal.stored(sequence.stored(place, *hash, tokens));
            }
        }
        sequence.published = full.max(sequence.published);
    }

    /// Preemption: the blocks go, and the sequence starts over at the head of the queue.
    fn set_back(&mut self, mut sequence: Sequence) {
        self.cache.release(&sequence.blocks);
        sequence.blocks.clear();
        sequence.published = 0;
        sequence.computed = 0;
        self.stats.preemptions += 1;
        self.waiting.push_front(sequence);
    }
}
