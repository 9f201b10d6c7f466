//! From a request's body to its answer.

use super::api::{self, Api, Choice, Meta, Parsed};
use super::args::Role;
use super::body::{self, Body};
use super::error::ApiError;
use super::faults::{Fault, Mode};
use super::kv::{self, Connector, Export, Leg, Remote};
use super::node::{Generation, Node};
use crate::rng::mix;
use crate::scheduler::{Event, Finish, LeaseState, Request, Transfer, Usage};
use crate::text::{answer_length, chain_seed, next_hash};
use http::{Response, StatusCode};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks at whether a room was emptied.
const LOOK: Duration = Duration::from_millis(2);

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
    let leg = kv::parse(node, &value, parsed.prompts.len() * parsed.n as usize)?;
    node.records.lock().update(record, |record| {
        record.model.clone_from(&parsed.model);
        record.stream = parsed.stream;
        record.prompt_tokens = parsed.prompts.iter().map(Vec::len).sum();
        record.kv_transfer_params = value.get("kv_transfer_params").cloned();
    });
    let model = served(node, parsed.model.as_deref())?;
    check_leg(node, &parsed, &leg)?;
    let id = format!("{}{}", api.id_prefix(), request_id(node, head, record));
    let is_leg = leg != Leg::Whole;
    let (exports, from) = match leg {
        Leg::Whole => (Vec::new(), Vec::new()),
        // As in vLLM, the engine's own id has a part that a client cannot choose.
        Leg::Prefill(Export::Own) => (vec![format!("{id}-{record:08x}")], Vec::new()),
        Leg::Prefill(Export::Given(id)) => (vec![id], Vec::new()),
        Leg::Prefill(Export::Rooms(ids)) => (ids, Vec::new()),
        Leg::Decode(remotes) => (Vec::new(), remotes),
    };
    let mut requests = requests(node, &parsed, &model, &exports, &from)?;
    for (remote, request) in from.iter().zip(&requests) {
        kv::validate(&node.http, remote, hash(request)).await?;
    }
    let stored = node.args.connector == Connector::Storage && !is_leg;
    if stored {
        for request in requests.iter_mut().filter(|request| node.store.holds(hash(request))) {
            request.transfer = Transfer::Import;
        }
    }
    let prompts: Vec<u64> = requests.iter().filter(|_| stored).map(hash).collect();
    let meta = Meta {
        id,
        model,
        created: node.unix_seconds(node.now()) as u64,
        prompt_tokens: requests.iter().map(|request| request.prompt.len()).sum(),
        include_usage: parsed.include_usage,
    };
    let generation = node.start(requests, from, record);
    let shape = api::shape(api, meta);
    let rooms = node.args.connector == Connector::Sglang && !exports.is_empty();
    if parsed.stream && !rooms {
        return Ok(body::stream(generation, shape, fault, parsed.n));
    }
    let kept = rooms.then(|| Rooms { node: Arc::clone(node), ids: exports.clone() });
    let cut_at = fault.as_ref().map(|fault| fault.after_tokens);
    let answered_with = exports.first().filter(|_| node.args.connector == Connector::Nixl);
    let (choices, total, handover) =
        collect(node, generation, answered_with.map(String::as_str), cut_at).await;
    prompts.into_iter().for_each(|prompt| node.store.put(prompt));
    if let Some(rooms) = kept {
        rooms.fetched().await?;
    }
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

/// What a prefill engine keeps in its rooms. It is given up with the request.
struct Rooms {
    node: Arc<Node>,
    ids: Vec<String>,
}

impl Rooms {
    /// Waits until decode engines have fetched all of it.
    async fn fetched(self) -> Result<(), ApiError> {
        for id in &self.ids {
            loop {
                match self.node.lease_state(id) {
                    LeaseState::Held(_) => tokio::time::sleep(LOOK).await,
                    LeaseState::Released => break,
                    LeaseState::Expired | LeaseState::Unknown => {
                        let text = format!("KVTransferError: nobody came to {id}");
                        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Rooms {
    fn drop(&mut self) {
        for id in &self.ids {
            self.node.release_lease(id);
        }
    }
}

fn hash(request: &Request) -> u64 {
    next_hash(request.seed, &request.prompt)
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
        (Leg::Whole, _) | (Leg::Prefill(Export::Rooms(_)), _) => Ok(()),
        (Leg::Prefill(_), Role::Decode) => {
            Err(ApiError::bad("kv_transfer_params.do_remote_decode", "this engine takes no prefill legs"))
        }
        (Leg::Decode(_), Role::Prefill) => {
            Err(ApiError::bad("kv_transfer_params.do_remote_prefill", "this engine takes no decode legs"))
        }
        (Leg::Decode(remotes), _) if remotes.len() > 1 => Ok(()),
        (_, _) if !one => {
            Err(ApiError::bad("n", "a request with kv_transfer_params should have one prompt and n = 1"))
        }
        (Leg::Prefill(_), _) if parsed.stream => {
            Err(ApiError::bad("stream", "a prefill leg should not stream"))
        }
        (Leg::Prefill(_), _) if parsed.max_tokens != Some(1) => Err(ApiError::bad(
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
    exports: &[String],
    from: &[Remote],
) -> Result<Vec<Request>, ApiError> {
    // SGLang's prefill engines make one token, whatever is asked for.
    let one = node.args.connector == Connector::Sglang && !exports.is_empty();
    let longest = node.args.sizes.scheduler().longest();
    let seed = chain_seed(model, &parsed.salt);
    let mut requests = Vec::with_capacity(parsed.prompts.len() * parsed.n as usize);
    for prompt in &parsed.prompts {
        let room = longest.saturating_sub(prompt.len());
        let wanted = if one { 1 } else { parsed.max_tokens.unwrap_or(u32::from(parsed.generates)) };
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
                max_output: match parsed.generates {
                    true if one => 1,
                    true => parsed.max_tokens.unwrap_or(natural),
                    false => 0,
                },
                natural_end: parsed.max_tokens.is_none() && !one,
                transfer: match exports.get(requests.len()) {
                    Some(name) => Transfer::Export(name.clone()),
                    None if from.is_empty() => Transfer::None,
                    None => Transfer::Import,
                },
            });
        }
    }
    Ok(requests)
}
