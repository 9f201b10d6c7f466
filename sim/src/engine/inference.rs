//! From a request's body to its answer.

use super::api::{self, Api, Choice, Meta, Parsed};
use super::args::Role;
use super::body::{self, Body};
use super::error::ApiError;
use super::faults::{Fault, Mode};
use super::kv::{self, Leg, Remote};
use super::node::{Generation, Node};
use crate::rng::mix;
use crate::scheduler::{Event, Finish, Request, Transfer, Usage};
use crate::text::{answer_length, chain_seed, next_hash};
use http::{Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;

/// Answers a request to an inference path.
pub(super) async fn answer(
    node: &Arc<Node>,
    api: Api,
    head: &http::request::Parts,
    bytes: &[u8],
    record: u64,
    fault: Option<Fault>,
) -> Response<Body> {
    match work(node, api, head, bytes, record, fault).await {
        Ok(response) => response,
        Err(error) => {
            let outcome = format!("error {}", error.status.as_u16());
            node.records.lock().update(record, |record| record.outcome = outcome);
            body::error(&error, api == Api::Messages)
        }
    }
}

async fn work(
    node: &Arc<Node>,
    api: Api,
    head: &http::request::Parts,
    bytes: &[u8],
    record: u64,
    fault: Option<Fault>,
) -> Result<Response<Body>, ApiError> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| ApiError::bad("body", format!("JSON decode error: {error}")))?;
    let mut parsed = api::parse(api, &value)?;
    if let Some(prompt) = node.vocabulary.as_ref().and_then(|vocabulary| vocabulary.prompt(api, bytes)) {
        parsed.prompts = vec![prompt];
    }
    let leg = kv::parse(value.get("kv_transfer_params"))?;
    node.records.lock().update(record, |record| {
        record.model.clone_from(&parsed.model);
        record.stream = parsed.stream;
        record.prompt_tokens = parsed.prompts.iter().map(Vec::len).sum();
        record.kv_transfer_params = value.get("kv_transfer_params").cloned();
    });
    let model = served(node, parsed.model.as_deref())?;
    check_leg(node, &parsed, &leg)?;
    let id = format!("{}{}", api.id_prefix(), request_id(node, head, record));
    // As in vLLM, the engine's own id has a part that a client cannot choose.
    let export = (leg == Leg::Prefill).then(|| format!("{id}-{record:08x}"));
    let from = match leg {
        Leg::Decode(remote) => Some(remote),
        Leg::Whole | Leg::Prefill => None,
    };
    let requests = requests(node, &parsed, &model, export.as_deref(), from.as_ref())?;
    if let (Some(remote), Some(request)) = (&from, requests.first()) {
        kv::validate(&node.http, remote, next_hash(request.seed, &request.prompt)).await?;
    }
    let meta = Meta {
        id,
        model,
        created: node.unix_seconds(node.now()) as u64,
        prompt_tokens: requests.iter().map(|request| request.prompt.len()).sum(),
        include_usage: parsed.include_usage,
    };
    let generation = node.start(requests, from, record);
    let shape = api::shape(api, meta);
    if parsed.stream {
        return Ok(body::stream(generation, shape, fault, parsed.n));
    }
    let cut_at = fault.as_ref().map(|fault| fault.after_tokens);
    let (choices, total, handover) = collect(node, generation, export.as_deref(), cut_at).await;
    let total = Usage { prompt: total.prompt / parsed.n.max(1) as usize, ..total };
    let answer = shape.whole(&choices, &total, handover);
    match fault.map(|fault| (fault.mode, fault.status)) {
        Some((Mode::Cut, _)) => {
            node.records.lock().update(record, |record| record.outcome = "fault".into());
            Ok(body::half(&answer))
        }
        Some((Mode::Hang, _)) => std::future::pending().await,
        Some((Mode::Error, status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Err(ApiError::new(status, "simulated error"))
        }
        _ => Ok(body::written(answer)),
    }
}

/// Reads a generation to its end, or until a fault is due.
async fn collect(
    node: &Node,
    mut generation: Generation,
    export: Option<&str>,
    cut_at: Option<u64>,
) -> (Vec<Choice>, Usage, Option<Value>) {
    let mut choices: Vec<Choice> = Vec::new();
    let mut total = Usage::default();
    let mut handover = None;
    let mut tokens = 0;
    while let Some((at, event)) = generation.next().await {
        if choices.len() <= at {
            choices.resize_with(at + 1, || Choice { text: String::new(), finish: Finish::Length });
        }
        let Some(choice) = choices.get_mut(at) else { continue };
        match event {
            Event::Fetched { .. } => {}
            Event::Token { token, .. } => {
                node.token_text(token, &mut choice.text);
                tokens += 1;
                if cut_at.is_some_and(|limit| tokens > limit) {
                    break;
                }
            }
            Event::Finished { finish, usage, pinned, .. } => {
                choice.finish = finish;
                total.prompt += usage.prompt;
                total.cached += usage.cached;
                total.external += usage.external;
                total.output += usage.output;
                if let (Some(pinned), Some(name)) = (pinned, export) {
                    handover = Some(kv::handover(node, name, &pinned));
                }
            }
        }
    }
    (choices, total, handover)
}

/// The model that answers: the one asked for, or the first when none is.
fn served(node: &Node, asked: Option<&str>) -> Result<String, ApiError> {
    let mut known = node.args.models.iter().chain(&node.args.loras);
    match asked {
        None => Ok(known.next().cloned().unwrap_or_default()),
        Some(model) if known.any(|name| name == model) => Ok(model.to_owned()),
        Some(model) => Err(ApiError::no_model(model)),
    }
}

fn check_leg(node: &Node, parsed: &Parsed, leg: &Leg) -> Result<(), ApiError> {
    let one = parsed.prompts.len() == 1 && parsed.n == 1;
    match (leg, node.args.role) {
        (Leg::Whole, _) => Ok(()),
        (Leg::Prefill, Role::Decode) => {
            Err(ApiError::bad("kv_transfer_params.do_remote_decode", "this engine takes no prefill legs"))
        }
        (Leg::Decode(_), Role::Prefill) => {
            Err(ApiError::bad("kv_transfer_params.do_remote_prefill", "this engine takes no decode legs"))
        }
        (_, _) if !one => {
            Err(ApiError::bad("n", "a request with kv_transfer_params should have one prompt and n = 1"))
        }
        (Leg::Prefill, _) if parsed.stream => Err(ApiError::bad("stream", "a prefill leg should not stream")),
        (Leg::Prefill, _) if parsed.max_tokens != Some(1) => Err(ApiError::bad(
            parsed.limit_field,
            format!("{} should be 1 in a prefill leg", parsed.limit_field),
        )),
        _ => Ok(()),
    }
}

/// The client's `X-Request-Id`, or one of our own.
fn request_id(node: &Node, head: &http::request::Parts, record: u64) -> String {
    let given =
        head.headers.get("x-request-id").and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    let own = || format!("{:016x}{:016x}", mix(node.now() ^ record), mix(record ^ u64::from(node.port)));
    given.map_or_else(own, ToOwned::to_owned)
}

fn requests(
    node: &Node,
    parsed: &Parsed,
    model: &str,
    export: Option<&str>,
    from: Option<&Remote>,
) -> Result<Vec<Request>, ApiError> {
    let longest = node.args.sizes.scheduler().longest();
    let seed = chain_seed(model, &parsed.salt);
    let mut requests = Vec::with_capacity(parsed.prompts.len() * parsed.n as usize);
    for prompt in &parsed.prompts {
        let room = longest.saturating_sub(prompt.len());
        let wanted = parsed.max_tokens.unwrap_or(u32::from(parsed.generates));
        if prompt.is_empty() || (wanted as usize) > room {
            return Err(ApiError::bad(
                "input_tokens",
                format!(
                    "This model's maximum context length is {longest} tokens. However, you requested {wanted} output \
                     tokens and your prompt contains {} input tokens.",
                    prompt.len()
                ),
            ));
        }
        // The answer follows from the prompt, not from where it is cached.
        let hash = next_hash(chain_seed(model, ""), prompt);
        let natural = answer_length(hash ^ node.args.seed).min(u32::try_from(room).unwrap_or(u32::MAX));
        for choice in 0..parsed.n {
            requests.push(Request {
                prompt: prompt.clone(),
                seed,
                adapter: node.args.loras.iter().find(|lora| *lora == model).cloned(),
                salt: parsed.salt.clone(),
                words: node.vocabulary.as_ref().map(|vocabulary| Arc::clone(&vocabulary.words)),
                answer: mix(hash ^ mix(node.args.seed) ^ u64::from(choice)),
                max_output: if parsed.generates { parsed.max_tokens.unwrap_or(natural) } else { 0 },
                natural_end: parsed.max_tokens.is_none(),
                transfer: match (export, from) {
                    (Some(name), _) => Transfer::Export(name.to_owned()),
                    (None, Some(_)) => Transfer::Import,
                    (None, None) => Transfer::None,
                },
            });
        }
    }
    Ok(requests)
}
