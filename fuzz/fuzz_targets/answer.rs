//! Bytes as the answer of an engine, cut anywhere: what is learned from it on its way to the client.
//!
//! The first byte chooses the API and whether it is a stream, the second how it is cut. What is learned does not depend on
//! the cuts, and tokens are never counted beyond the bytes that came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate::api::{AnswerId, UsageScan};
use sluicegate::types::Api;

const APIS: [Api; 6] =
    [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Embeddings, Api::Generate];

fuzz_target!(|bytes: &[u8]| {
    let [how, size, answer @ ..] = bytes else { return };
    let api = APIS[usize::from(how >> 1) % APIS.len()];
    let streaming = how & 1 == 1;
    let learn = |size: usize| {
        let (mut scan, mut id) = (UsageScan::new(api, streaming), AnswerId::default());
        for piece in answer.chunks(size) {
            scan.feed(piece);
            id.feed(piece);
        }
        let seen = (scan.first_token_seen(), scan.chunks(), scan.ended());
        (seen, id.get().map(str::to_owned), scan.finish())
    };
    let whole = learn(answer.len().max(1));
    assert_eq!(whole, learn(usize::from(*size).max(1)), "what is learned depends on the cuts");
    assert!(whole.0.1 as usize <= answer.len());
});
