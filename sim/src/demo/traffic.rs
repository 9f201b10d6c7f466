//! The traffic of the demonstration: conversations over shared system prompts.

use super::args::Args;
use crate::load;

/// The traffic, sent to `urls` in rotation.
///
/// 24 system prompts of 3,000 tokens and 48 conversations of 5 turns: some 130,000 tokens that are asked for again and
/// again. All engines together can keep them, one alone cannot.
pub(super) fn traffic(args: &Args, urls: Vec<String>) -> load::Args {
    load::Args {
        urls,
        model: Some("demo".into()),
        traffic: load::Traffic {
            api: load::Api::Chat,
            rate: None,
            concurrency: 24,
            ramp_s: 3.0,
            requests: Some(args.requests),
            duration: Some(args.run_s),
            groups: 24,
            prefix_tokens: 3000,
            hot_share: 0.0,
            trace: None,
            question_tokens: 150,
            long_share: 0.0,
            long_tokens: 0,
            sessions: 48,
            turns: 5,
            output_tokens: 48,
            seed: args.seed,
            flows: Vec::new(),
            priority: None,
        },
        stream: true,
        timeout_s: 60.0,
        json: false,
        allow_failures: true,
    }
}
