//! Bytes as the body of a request, and what routing makes of it.
//!
//! The first byte chooses the API. Whatever follows is facts or an error; the canonical prompt is not much longer than
//! the body (a picture weighs what it costs an engine), its hashes are the same each time, and what comes behind the
//! prompt in a longer text takes none of its blocks away.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate::api::facts;
use sluicegate::prefix::block_hashes;
use sluicegate::types::{Api, Prompt};

const APIS: [Api; 6] =
    [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Embeddings, Api::Generate];
/// Bytes that one byte of a body may become at most: a member of two bytes that names a picture.
const GROWTH: usize = 1_024;
const BLOCK: u32 = 4;

fuzz_target!(|bytes: &[u8]| {
    let Some((api, body)) = bytes.split_first() else { return };
    let Ok(found) = facts::parse(APIS[usize::from(*api) % APIS.len()], body) else { return };
    let Some(prompt) = found.prompt else { return };
    let hashes = block_hashes(1, &prompt, BLOCK);
    assert_eq!(hashes, block_hashes(1, &prompt, BLOCK));
    let longer = match &prompt {
        Prompt::Text(text) => {
            assert!(text.len() <= body.len().max(1) * GROWTH, "{} bytes of {}", text.len(), body.len());
            Prompt::Text([text, b"and more than a block of it".as_slice()].concat())
        }
        Prompt::Tokens(ids) => {
            assert!(ids.len() <= body.len(), "{} tokens of {}", ids.len(), body.len());
            Prompt::Tokens([ids, [1, 2, 3, 4].as_slice()].concat())
        }
    };
    let all = block_hashes(1, &longer, BLOCK);
    assert_eq!(all.get(..hashes.len()), Some(&*hashes), "a longer prompt has other blocks");
});
