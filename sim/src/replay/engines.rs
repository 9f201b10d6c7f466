//! The engines: schedulers that are moved on together.

use crate::rng::mix;
use crate::scheduler::{Config, Core, Event, Nanos, Request, SequenceId, Transfer};
use crate::text::{Token, chain_seed, next_hash};

/// All engines.
pub(crate) struct Engines {
    cores: Vec<Core>,
    block_size: usize,
    blocks: usize,
}

/// What an engine says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) kv_usage: f64,
    pub(crate) preemptions: u64,
    pub(crate) block_tokens: usize,
    pub(crate) blocks: usize,
}

impl Engines {
    pub(crate) fn new(count: usize, config: Config) -> Self {
        let (block_size, blocks) = (config.block_size, config.num_blocks);
        Self { cores: (0..count).map(|_| Core::new(config.clone())).collect(), block_size, blocks }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    /// Gives a prompt to an engine.
    pub(crate) fn submit(
        &mut self,
        engine: usize,
        now: Nanos,
        prompt: Vec<Token>,
        max_output: u32,
        transfer: Transfer,
    ) -> Option<SequenceId> {
        let seed = chain_seed(super::run::MODEL, "");
        let answer = mix(next_hash(seed, &prompt));
        let request = Request {
            prompt,
            seed,
            adapter: None,
            salt: String::new(),
            words: None,
            answer,
            max_output,
            natural_end: false,
            transfer,
        };
        Some(self.cores.get_mut(engine)?.submit(now, request))
    }

    /// Lets go of what an engine kept under this name.
    pub(crate) fn release(&mut self, engine: usize, name: &str, now: Nanos) {
        if let Some(core) = self.cores.get_mut(engine) {
            core.release_lease(name, now);
        }
    }

    /// When the first of them has something to do.
    pub(crate) fn next_wake(&self) -> Option<Nanos> {
        self.cores.iter().filter_map(Core::next_wake).min()
    }

    /// Moves all on to `now`; what happened, each with the engine at which it did.
    pub(crate) fn advance(&mut self, now: Nanos) -> Vec<(usize, Event)> {
        let mut all = Vec::new();
        let mut events = Vec::new();
        for (engine, core) in self.cores.iter_mut().enumerate() {
            core.advance(now, &mut events);
            all.extend(events.drain(..).map(|event| (engine, event)));
        }
        all
    }

    pub(crate) fn read(&self) -> impl Iterator<Item = Reading> + '_ {
        self.cores.iter().map(|core| {
            let gauges = core.gauges();
            Reading {
                waiting: gauges.waiting,
                running: gauges.running,
                kv_usage: gauges.kv_usage,
                preemptions: core.stats().preemptions,
                block_tokens: self.block_size,
                blocks: self.blocks,
            }
        })
    }
}
