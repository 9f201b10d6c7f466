//! The hand-over of a prompt's cache between engines, as a router sees it, one file a connector.
//!
//! Every field is checked, so that a router that leaves one out or alters one is found out: what is wrong is a 400 that
//! names it. Engines find each other under `/sim/kv/ID`, whatever the connector calls an id.

mod bootstrap;
mod nixl;
mod peer;
mod sglang;
mod store;

use super::error::ApiError;
use super::node::Node;
use crate::scheduler::BlockId;
use serde_json::{Map, Value};

pub(super) use nixl::{describe, handover};
pub(super) use peer::{release, validate};
pub(super) use store::Store;

/// What hands caches over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Connector {
    /// vLLM's `NixlConnector`.
    Nixl,
    /// vLLM's `MooncakeConnector`; its bootstrap server is the engine's own port.
    Mooncake,
    /// vLLM's `OffloadingConnector` between hosts, at the engine's own port.
    Offloading,
    /// A store that engines share: the folder of `--store`.
    Storage,
    /// SGLang: with a role it takes nothing but legs; its bootstrap server is the engine's own port.
    Sglang,
}

/// Which leg a request is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Leg {
    /// None: the engine does all.
    Whole,
    /// Prefill for another engine.
    Prefill(Export),
    /// Decode after another engine's prefill, which each sequence finds there.
    Decode(Vec<Remote>),
}

/// Under which ids blocks are kept.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Export {
    /// Under one that the engine makes up and answers with.
    Own,
    /// Under the one that it was given.
    Given(String),
    /// Under one for each sequence; the leg is done when all of them were fetched.
    Rooms(Vec<String>),
}

/// Where the cache of a prompt is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Remote {
    /// The engine, where it is named.
    pub(super) engine: Option<String>,
    pub(super) id: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) holds: Holds,
}

/// What is known of the cache beforehand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Holds {
    /// It is there, in these blocks.
    Blocks { blocks: Vec<Vec<BlockId>>, tokens: usize },
    /// It will be: prefill was asked at the same time.
    Soon,
}

const PARAMS: &str = "kv_transfer_params";
const BOOTSTRAP: [&str; 3] = ["bootstrap_host", "bootstrap_port", "bootstrap_room"];

/// Reads from a body which leg it is. `sequences` is how many answers it wants to all of its prompts.
pub(super) fn parse(node: &Node, body: &Value, sequences: usize) -> Result<Leg, ApiError> {
    let connector = node.args.connector;
    let params = body.get(PARAMS).filter(|params| !params.is_null());
    if connector == Connector::Sglang {
        return match params {
            Some(_) => Err(ApiError::bad(PARAMS, "kv_transfer_params is unknown to this engine")),
            None => sglang::parse(body, node.args.role, sequences),
        };
    }
    if let Some(field) = BOOTSTRAP.iter().find(|field| body.get(**field).is_some()) {
        return Err(ApiError::bad(*field, format!("{field} is unknown to this engine")));
    }
    let map = match params {
        None => return Ok(Leg::Whole),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(ApiError::bad(PARAMS, "kv_transfer_params should be an object")),
    };
    match connector {
        Connector::Nixl => nixl::parse(map),
        Connector::Mooncake => bootstrap::mooncake(map),
        Connector::Offloading => bootstrap::offloading(map),
        Connector::Storage | Connector::Sglang => {
            Err(ApiError::bad(PARAMS, "kv_transfer_params is unknown to this connector"))
        }
    }
}

fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Result<&'a Value, ApiError> {
    map.get(name).ok_or_else(|| fault(name, "is required"))
}

fn text(map: &Map<String, Value>, name: &str) -> Result<String, ApiError> {
    match field(map, name)?.as_str() {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err(fault(name, "should be text")),
    }
}

fn flag(map: &Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    field(map, name)?.as_bool().ok_or_else(|| fault(name, "should be true or false"))
}

fn port(map: &Map<String, Value>, name: &str) -> Result<u16, ApiError> {
    let port = field(map, name)?.as_u64().and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| fault(name, "should be a port"))
}

fn only(map: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match map.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(fault(unknown, "is unknown")),
        None => Ok(()),
    }
}

fn fault(name: &str, what: &str) -> ApiError {
    ApiError::bad(format!("{PARAMS}.{name}"), format!("{PARAMS}.{name} {what}"))
}
