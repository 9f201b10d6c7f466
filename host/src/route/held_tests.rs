use super::*;
use crate::clock::SECOND;
use crate::policy::Request;
use crate::pool::Report;
use crate::prefix::exact::{Adapter, LASTS, STALL, Source, Stored, Tier};
use crate::route::tests::lane;
use crate::types::Prompt;

fn prompt(tokens: u32) -> Arc<Request> {
    asked("m", "", (0..tokens).collect())
}

fn asked(model: &str, salt: &str, ids: Vec<u32>) -> Arc<Request> {
    let prompt = Prompt::Tokens(ids);
    Arc::new(Request {
        model: model.into(),
        prompt_tokens: prompt.tokens(),
        prefix: Some(PrefixSource::new(prompt, 0, 16).salted(salt)),
        ..Request::unremarkable("r")
    })
}

/// Blocks of 8 tokens from the first of [`prompt`] on.
fn stored(blocks: u32) -> Stored {
    Stored {
        blocks: (0..blocks.into()).collect(),
        parent: None,
        tokens: (0..blocks * 8).collect(),
        block_tokens: 8,
        adapter: Adapter::None,
        extra: Vec::new(),
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
    }
}

fn listening(lane: &Arc<Lane>, place: usize, complete: bool) -> Source {
    let feed = lane.exact.open(lane.pool.endpoints()[place].id, 1);
    feed.streams()[0].set_connected(true);
    feed.streams()[0].set_complete(complete);
    Source::new(&lane.exact, &feed)
}

fn wanting() -> Arc<Lane> {
    let lane = lane(3);
    lane.registry.resolve("prefix.tokens").unwrap();
    lane
}

fn told(lane: &Arc<Lane>, request: &Arc<Request>) -> Vec<(u32, Known)> {
    let holdings = lane.holdings(request, &lane.pool.endpoints());
    holdings.iter().map(|holding| (holding.tokens, holding.known)).collect()
}

#[test]
fn each_endpoint_is_judged_by_what_is_known_of_it() {
    let lane = wanting();
    let endpoints = lane.pool.endpoints();
    let request = prompt(100);
    endpoints.iter().for_each(|endpoint| lane.index.insert(endpoint.id, request.prefix_hashes()));
    let (mut exact, mut partial) = (listening(&lane, 0, true), listening(&lane, 1, false));
    exact.stored(&stored(2)).unwrap();
    partial.stored(&stored(2)).unwrap();
    assert_eq!(told(&lane, &request), [(16, Known::Exact), (96, Known::Partial), (96, Known::Approximate)]);
    partial.stored(&stored(30)).unwrap();
    assert_eq!(told(&lane, &request)[1], (96, Known::Partial));
    // The last token is computed in any case.
    exact.stored(&stored(30)).unwrap();
    assert_eq!(told(&lane, &prompt(96))[0], (88, Known::Exact));
    let feed = lane.exact.feed(endpoints[0].id).unwrap();
    feed.awaits(1);
    assert_eq!(feed.known(STALL + 2), Known::Approximate);
}

#[test]
fn a_prompt_whose_token_ids_are_not_known_is_judged_by_what_was_sent() {
    let lane = wanting();
    let mut source = listening(&lane, 0, true);
    source.stored(&stored(30)).unwrap();
    let text = Prompt::Text(b"what is this about ".repeat(40));
    let request = Arc::new(Request {
        prompt_tokens: text.tokens(),
        prefix: Some(PrefixSource::new(text, 0, 16)),
        ..Request::unremarkable("r")
    });
    assert_eq!(told(&lane, &request)[0], (0, Known::Approximate));
    request.prefix.as_ref().unwrap().tokenized((0..100).collect());
    assert_eq!(told(&lane, &request)[0], (96, Known::Exact));
}

#[test]
fn tiers_are_told_apart() {
    let lane = wanting();
    let mut source = listening(&lane, 0, true);
    source.stored(&stored(4)).unwrap();
    source.stored(&Stored { tier: Tier::Cpu, blocks: vec![1, 2], tokens: Vec::new(), ..stored(0) }).unwrap();
    source.stored(&Stored { tier: Tier::Disk, blocks: vec![3], tokens: Vec::new(), ..stored(0) }).unwrap();
    source.removed(&[1, 2, 3], Tier::Gpu, None).unwrap();
    let holding = lane.holdings(&prompt(100), &lane.pool.endpoints())[0];
    assert_eq!((holding.tokens, holding.gpu, holding.cpu, holding.disk), (32, 8, 16, 8));
}

#[test]
fn a_model_that_an_engine_calls_an_adapter_has_a_cache_of_its_own() {
    let lane = wanting();
    let mut source = listening(&lane, 0, true);
    source.stored(&stored(4)).unwrap();
    let of = |model: &str, salt: &str| told(&lane, &asked(model, salt, (0..100).collect()))[0].0;
    assert_eq!((of("m", ""), of("sql", ""), of("m", "s")), (32, 32, 0));
    let adapters = vec!["sql".into()].into();
    lane.pool.publish(&lane.pool.endpoints()[0], Report { adapters, ..Report::default() });
    assert_eq!((of("m", ""), of("sql", "")), (32, 0));
    let named = Stored { adapter: Adapter::Named("new".into()), blocks: vec![90, 91], ..stored(2) };
    source.stored(&Stored { tokens: (0..16).collect(), ..named }).unwrap();
    assert_eq!((of("m", ""), of("sql", ""), of("new", "")), (32, 0, 16));
}

#[test]
fn what_was_sent_counts_until_it_is_reported_or_comes_to_nothing() {
    let lane = wanting();
    let mut source = listening(&lane, 0, true);
    source.stored(&stored(2)).unwrap();
    let (request, endpoint) = (prompt(100), Arc::clone(&lane.pool.endpoints()[0]));
    let held = lane.cached_tokens(&request, &endpoint);
    lane.sent(&request, &endpoint);
    assert_eq!((held, lane.cached_tokens(&request, &endpoint)), (16, 96));
    lane.unsent(&request, &endpoint, held);
    assert_eq!(lane.cached_tokens(&request, &endpoint), 16);
    lane.sent(&request, &endpoint);
    lane.exact.sweep(1 + LASTS + SECOND);
    assert_eq!(lane.cached_tokens(&request, &endpoint), 16);
}
