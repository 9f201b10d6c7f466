//! One engine asking another for a cache.

use super::{Holds, Remote};
use crate::engine::error::ApiError;
use crate::web::{self, Http};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a decode engine waits for a prefill engine's word.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two questions for what is not there yet.
const AGAIN: Duration = Duration::from_millis(2);

/// Asks the prefill engine whether it holds what the decode leg says it holds, and waits for what it will hold.
pub(in crate::engine) async fn validate(http: &Http, remote: &Remote, prompt: u64) -> Result<(), ApiError> {
    let failed = |what: String| {
        let engine = remote.engine.as_deref().unwrap_or("?");
        let text = format!(
            "KV transfer failed for remote request {} on engine {engine} at {}:{}: {what}",
            remote.id, remote.host, remote.port
        );
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    let begun = Instant::now();
    let (status, answer) = loop {
        let (status, answer) = web::json(http, Method::GET, &url(remote), None, PATIENCE)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let waits = remote.holds == Holds::Soon && status == StatusCode::NOT_FOUND;
        if !waits || begun.elapsed() > PATIENCE {
            break (status, answer);
        }
        tokio::time::sleep(AGAIN).await;
    };
    let engine = answer.get("engine_id").and_then(Value::as_str).unwrap_or_default();
    if remote.engine.as_deref().is_some_and(|named| named != engine) {
        return Err(failed(format!("remote_engine_id is not that engine's, which is {engine:?}")));
    }
    if status != StatusCode::OK {
        let why = answer.get("error").and_then(Value::as_str).unwrap_or("no reason given");
        return Err(failed(why.to_owned()));
    }
    if let Holds::Blocks { blocks, tokens } = &remote.holds {
        if answer.get("block_ids") != Some(&json!(blocks)) {
            return Err(failed("remote_block_ids are not those that it holds".into()));
        }
        if answer.get("tokens") != Some(&json!(tokens)) {
            return Err(failed("remote_num_tokens is not what it holds".into()));
        }
    }
    if answer.get("prompt").and_then(Value::as_str) != Some(&format!("{prompt:016x}")) {
        return Err(failed("the prompt is not the one that was prefilled".into()));
    }
    Ok(())
}

/// Tells the prefill engine that its blocks have been fetched. When that fails they stay until their lease ends.
pub(in crate::engine) async fn release(http: Http, remote: Remote) {
    let _until_the_lease_ends = web::json(&http, Method::DELETE, &url(&remote), None, PATIENCE).await;
}

fn url(remote: &Remote) -> String {
    let mut url = format!("http://{}:{}/sim/kv/", remote.host, remote.port);
    for byte in remote.id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => url.push(char::from(byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}
