//! How fast an endpoint is, measured: what `prefix-affinity` starts from before it has learned rates from traffic.
//!
//! Prompts of several lengths that nothing has cached are sent one after another. The time to the first token grows
//! with the length by what a token takes to compute; what is left at no length is what every request costs. Then some
//! are decoded alone and together. It takes seconds of the endpoint's time, and wants it idle.

mod ask;
mod fit;

use std::time::Duration;

use serde::Serialize;

pub use ask::AskError;

use self::ask::{Asked, Endpoint};
use self::fit::line;
use crate::types::Url;

/// Lengths of the prompts, in tokens by estimate.
const LENGTHS: [usize; 3] = [256, 1_024, 4_096];
/// How often each length is asked.
const ROUNDS: usize = 3;
/// Tokens of the answers from which the time per token is taken.
const OUTPUT: u32 = 64;
/// Requests that decode together.
const TOGETHER: usize = 8;

/// What was measured of an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// The model that answered.
    pub model: String,
    /// Prompt tokens computed a second.
    pub prefill_tokens_per_s: f64,
    /// Time to first token of a prompt of no tokens, milliseconds.
    pub fixed_ms: f64,
    /// Time per output token of a request alone, milliseconds.
    pub tpot_ms: f64,
    /// The same of eight requests at once, milliseconds.
    pub tpot_together_ms: f64,
    /// Prompts from which the rate is taken: tokens by the engine's count, and milliseconds to the first token.
    pub prompts: Vec<(u32, f64)>,
}

/// Measures an endpoint; `model` none takes the first that it lists.
///
/// # Errors
/// When it does not answer, or in a way from which nothing can be told.
pub async fn calibrate(url: &Url, model: Option<String>, timeout: Duration) -> Result<Calibration, AskError> {
    let endpoint = Endpoint::connect(url, model, timeout).await?;
    // The first request of all may load or compile something.
    endpoint.ask(64, 2).await?;
    let mut prompts = Vec::new();
    for tokens in LENGTHS {
        for _ in 0..ROUNDS {
            let asked = endpoint.ask(tokens, 2).await?;
            prompts.push((asked.prompt_tokens, asked.ttft_ms));
        }
    }
    let points: Vec<_> = prompts.iter().map(|(tokens, ms)| (f64::from(*tokens), *ms)).collect();
    let (fixed_ms, ms_per_token) = line(&points).ok_or(AskError::NoRate)?;
    let tpot_ms = endpoint.ask(64, OUTPUT).await?.tpot_ms.ok_or(AskError::NoTokens)?;
    let all = futures_util::future::join_all((0..TOGETHER).map(|_| endpoint.ask(64, OUTPUT))).await;
    let all: Vec<Asked> = all.into_iter().collect::<Result<_, _>>()?;
    let times: Vec<f64> = all.iter().filter_map(|asked| asked.tpot_ms).collect();
    if times.is_empty() {
        return Err(AskError::NoTokens);
    }
    #[expect(clippy::cast_precision_loss, reason = "eight of them")]
    let tpot_together_ms = times.iter().sum::<f64>() / times.len() as f64;
    Ok(Calibration {
        model: endpoint.model,
        prefill_tokens_per_s: 1_000.0 / ms_per_token,
        fixed_ms: fixed_ms.max(0.0),
        tpot_ms,
        tpot_together_ms,
        prompts,
    })
}
