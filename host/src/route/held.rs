//! What endpoints hold of a prompt, from all that is known.
//!
//! An endpoint whose engine reports, for a prompt whose token ids are known, is judged by the exact index. Every other
//! one, and every other prompt, is judged by what was sent there. An engine that was heard of late holds more than it
//! reported since: then the longer of both counts.

use std::sync::Arc;

use super::Lane;
use crate::clock::Nanos;
use crate::policy::{PrefixSource, Request};
use crate::pool::Endpoint;
use crate::prefix::exact::{self, Feed, Known, Run};

/// What one endpoint holds of a prompt, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// From the first on, without a gap.
    pub tokens: u32,
    /// Of them, in GPU memory.
    pub gpu: u32,
    /// Of them, in CPU memory.
    pub cpu: u32,
    /// Of them, further away.
    pub disk: u32,
    /// What this rests on.
    pub known: Known,
}

impl Holding {
    /// Nothing.
    pub const NOTHING: Self = Self { tokens: 0, gpu: 0, cpu: 0, disk: 0, known: Known::Approximate };

    fn sent(tokens: u32) -> Self {
        Self { tokens, gpu: tokens, ..Self::NOTHING }
    }

    fn reported(run: Run, block_tokens: u32, known: Known) -> Self {
        let [gpu, cpu, disk] = [run.gpu, run.cpu, run.disk].map(|blocks| blocks.saturating_mul(block_tokens));
        Self { tokens: gpu.saturating_add(cpu).saturating_add(disk), gpu, cpu, disk, known }
    }
}

/// Endpoints whose engines have blocks of one size.
struct Group {
    block_tokens: u32,
    /// Position, feed, and what is known.
    members: Vec<(usize, Arc<Feed>, Known)>,
}

impl Group {
    /// Where the chain of the request's blocks begins. A model that any of the engines calls an adapter is one.
    fn seed(&self, request: &Request, source: &PrefixSource, endpoints: &[Arc<Endpoint>]) -> u64 {
        let named = |(position, feed, _): &(usize, Arc<Feed>, Known)| {
            endpoints.get(*position).is_some_and(|endpoint| is_adapter(&request.model, feed, endpoint))
        };
        seed(request, source, self.members.iter().any(named))
    }
}

impl Lane {
    /// What each endpoint holds of the request's prompt.
    #[must_use]
    pub fn holdings(&self, request: &Request, endpoints: &[Arc<Endpoint>]) -> Vec<Holding> {
        let Some(source) = self.source(request) else { return vec![Holding::NOTHING; endpoints.len()] };
        let mut holdings = vec![Holding::NOTHING; endpoints.len()];
        self.read_reports(request, source, endpoints, &mut holdings);
        self.read_sent(request, source, endpoints, &mut holdings);
        holdings
    }

    /// Prompt tokens of the request that the endpoint holds.
    #[must_use]
    pub fn cached_tokens(&self, request: &Request, endpoint: &Arc<Endpoint>) -> u32 {
        self.holdings(request, std::slice::from_ref(endpoint)).first().map_or(0, |holding| holding.tokens)
    }

    /// The request's prompt, where any policy wants to know who holds it.
    pub(super) fn source<'a>(&self, request: &'a Request) -> Option<&'a PrefixSource> {
        request.prefix.as_ref().filter(|_| self.registry.wants_prefix())
    }

    fn read_reports(
        &self,
        request: &Request,
        source: &PrefixSource,
        endpoints: &[Arc<Endpoint>],
        holdings: &mut [Holding],
    ) {
        if self.exact.is_silent() || source.tokens().is_none() {
            return;
        }
        let now = self.clock.now();
        for group in self.groups(endpoints, now) {
            let seed = group.seed(request, source, endpoints);
            let Some(hashes) = source.token_hashes(seed, group.block_tokens) else { continue };
            let ids: Vec<_> = group.members.iter().map(|(_, feed, _)| feed.endpoint).collect();
            let runs = self.exact.lookup(&hashes, &ids, now);
            for ((position, _, known), run) in group.members.into_iter().zip(runs) {
                if let Some(holding) = holdings.get_mut(position) {
                    *holding = Holding::reported(run, group.block_tokens, known);
                }
            }
        }
    }

    /// Those of the endpoints whose engines are heard, by the size of their blocks.
    fn groups(&self, endpoints: &[Arc<Endpoint>], now: Nanos) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (position, endpoint) in endpoints.iter().enumerate() {
            let Some(feed) = self.exact.feed(endpoint.id) else { continue };
            let (known, block_tokens) = (feed.known(now), feed.block_tokens());
            if known == Known::Approximate {
                continue;
            }
            let member = (position, feed, known);
            match groups.iter_mut().find(|group| group.block_tokens == block_tokens) {
                Some(group) => group.members.push(member),
                None => groups.push(Group { block_tokens, members: vec![member] }),
            }
        }
        groups
    }

    fn read_sent(
        &self,
        request: &Request,
        source: &PrefixSource,
        endpoints: &[Arc<Endpoint>],
        holdings: &mut [Holding],
    ) {
        if holdings.iter().all(|holding| holding.known == Known::Exact) {
            return;
        }
        let ids: Vec<_> = endpoints.iter().map(|endpoint| endpoint.id).collect();
        let mut matched = Vec::with_capacity(ids.len());
        self.index.lookup(source.hashes(), &ids, &mut matched);
        for (holding, blocks) in holdings.iter_mut().zip(matched) {
            let tokens = source.tokens_in(blocks, request.prompt_tokens);
            match holding.known {
                Known::Exact => {}
                Known::Partial if holding.tokens >= tokens => {}
                known => *holding = Holding { known, ..Holding::sent(tokens) },
            }
        }
    }

    /// The engine will report the prompt's blocks soon; until then they count.
    pub(super) fn expect(&self, request: &Request, source: &PrefixSource, endpoint: &Endpoint) {
        let Some((feed, hashes)) = self.reported_chain(request, source, endpoint) else { return };
        let now = self.clock.now();
        let held = self.exact.lookup(&hashes, &[endpoint.id], now).first().map_or(0, |run| run.blocks());
        if usize::try_from(held).is_ok_and(|held| held < hashes.len()) {
            self.exact.speculate(&feed, &hashes, held, now);
            if feed.known(now) == Known::Exact {
                feed.awaits(now);
            }
        }
    }

    /// The engine will report nothing beyond the first `held` tokens of the prompt.
    pub(super) fn expect_no_more(
        &self,
        request: &Request,
        source: &PrefixSource,
        endpoint: &Endpoint,
        held: u32,
    ) {
        if let Some((feed, hashes)) = self.reported_chain(request, source, endpoint) {
            self.exact.give_up(&feed, &hashes, held.checked_div(feed.block_tokens()).unwrap_or(0));
        }
    }

    /// The chain of the prompt's blocks as the endpoint's engine will report them.
    fn reported_chain(
        &self,
        request: &Request,
        source: &PrefixSource,
        endpoint: &Endpoint,
    ) -> Option<(Arc<Feed>, Arc<[u64]>)> {
        source.tokens()?;
        let feed = self.exact.feed(endpoint.id)?;
        let seed = seed(request, source, is_adapter(&request.model, &feed, endpoint));
        let hashes = source.token_hashes(seed, feed.block_tokens())?;
        Some((feed, hashes))
    }
}

/// Whether an endpoint's engine calls a model an adapter.
fn is_adapter(model: &str, feed: &Feed, endpoint: &Endpoint) -> bool {
    feed.names_adapter(model) || endpoint.report().adapters.iter().any(|adapter| **adapter == *model)
}

/// Where the chain of a request's blocks begins.
fn seed(request: &Request, source: &PrefixSource, model_is_adapter: bool) -> u64 {
    let adapter = request.adapter.as_deref().or(model_is_adapter.then_some(&*request.model));
    exact::seed(adapter, source.salt())
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
