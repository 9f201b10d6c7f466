//! The model's own tokens for a request, if they come in time.

use std::sync::Arc;
use std::time::Duration;

use super::infer::seconds;
use super::{Proxy, Service};
use crate::policy::Request;
use crate::tokens::{NoTokens, Tokenized, Tokenizer, Workers};

/// With what a pool's requests are tokenized.
#[derive(Debug)]
pub struct Tokenizing {
    /// The model's.
    pub tokenizer: Arc<Tokenizer>,
    /// Where it runs.
    pub workers: Arc<Workers>,
    /// How long a request waits for its tokens.
    pub wait: Duration,
}

/// What is said of tokens that are there.
const KNOWN: &str = "tokens";

/// Finds out the tokens of a request's prompt, where a policy minds who holds them. Without them it goes on as it is, and
/// says so.
pub(super) async fn learn(proxy: &Proxy, service: &Service, request: &mut Request) {
    let Some(tokenizing) = &service.tokenizing else { return };
    let Some(source) = request.prefix.as_ref().filter(|source| source.tokens().is_none()) else { return };
    if !proxy.catalog.current().reads_prefix(&service.config.chain, &service.lane.registry) {
        return;
    }
    let began = proxy.clock.now();
    let outcome = match tokenizing.ids(request).await {
        Ok(ids) => {
            request.prompt_tokens = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            request.prompt_tokens_exact = true;
            source.tokenized(ids);
            KNOWN
        }
        Err(why) => why.as_str(),
    };
    request.tokenizer = Some(outcome);
    service.metrics.tokenized(outcome, seconds(proxy.clock.now().saturating_sub(began)));
}

impl Tokenizing {
    async fn ids(&self, request: &Request) -> Tokenized {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let done = move |tokenized| {
            let _ = sender.send(tokenized);
        };
        let _wanted = self.workers.submit(&self.tokenizer, request.api, request.body.clone(), done)?;
        match tokio::time::timeout(self.wait, receiver).await {
            Ok(Ok(tokenized)) => tokenized,
            Ok(Err(_)) => Err(NoTokens::Failed),
            Err(_) => Err(NoTokens::Late),
        }
    }
}
