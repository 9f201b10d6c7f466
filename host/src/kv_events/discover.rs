//! Asking an engine where it publishes: vLLM's `GET /kv_event_sources`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use crate::types::{Attach, Publisher, TcpAddress, Url};

/// Time in which an engine must answer.
const ANSWERS: Duration = Duration::from_secs(5);
/// Bytes of the answer.
const MAX_ANSWER: usize = 256 << 10;
/// Data-parallel ranks of one engine.
const MAX_RANKS: usize = 256;

/// What engines are asked through.
#[derive(Debug, Clone)]
pub(super) struct Asker(legacy::Client<HttpConnector, Empty<Bytes>>);

/// What vLLM says of one rank.
#[derive(Debug, Deserialize)]
struct Said {
    #[serde(default)]
    enable_kv_cache_events: bool,
    publisher: Option<String>,
    endpoint: Option<String>,
    replay_endpoint: Option<String>,
    #[serde(default)]
    topic: String,
}

impl Asker {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(ANSWERS));
        Self(legacy::Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector))
    }

    /// The publishers of an engine; none when it says nothing of any.
    pub(super) async fn ask(&self, url: &Url) -> Vec<Publisher> {
        let answer = tokio::time::timeout(ANSWERS, self.get(url)).await;
        answer.ok().flatten().map_or_else(Vec::new, |body| publishers(&body, &url.host))
    }

    async fn get(&self, url: &Url) -> Option<Bytes> {
        let request = Request::get(format!("{url}/kv_event_sources")).body(Empty::new()).ok()?;
        let answer = self.0.request(request).await.ok()?;
        if answer.status() != StatusCode::OK {
            return None;
        }
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await.ok()?;
        Some(body.to_bytes())
    }
}

/// Reads the answer of the engine on `host`: one publisher for each rank, in the order of the ranks.
fn publishers(body: &[u8], host: &str) -> Vec<Publisher> {
    let said: std::collections::BTreeMap<String, Said> = serde_json::from_slice(body).unwrap_or_default();
    let mut ranks: Vec<(u32, Said)> =
        said.into_iter().filter_map(|(rank, said)| Some((rank.parse().ok()?, said))).collect();
    ranks.sort_by_key(|(rank, _)| *rank);
    let published = |said: &Said| {
        said.enable_kv_cache_events && said.publisher.as_deref().is_none_or(|kind| kind == "zmq")
    };
    let publisher = |said: Said| {
        Some(Publisher {
            attach: Attach::Connect(reached(said.endpoint.as_deref()?, host)?),
            replay: said.replay_endpoint.as_deref().and_then(|address| reached(address, host)),
            topic: said.topic.into(),
        })
    };
    let ranks = ranks.into_iter().take(MAX_RANKS).filter(|(_, said)| published(said));
    ranks.filter_map(|(_, said)| publisher(said)).collect()
}

/// An engine that listens on all of its addresses is reached at the one that is known.
fn reached(address: &str, host: &str) -> Option<TcpAddress> {
    let address = TcpAddress::parse(address).ok()?;
    Some(if address.is_wildcard() { TcpAddress { host: host.into(), ..address } } else { address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_is_reached_where_the_engine_is() {
        let body = br#"{
            "10": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://*:15", "topic": "t"},
            "2": {"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": "tcp://10.0.0.9:14",
                  "replay_endpoint": "tcp://0.0.0.0:16", "buffer_steps": 10000, "topic": ""},
            "3": {"enable_kv_cache_events": false, "publisher": "null", "endpoint": "tcp://*:1", "topic": ""}
        }"#;
        let found = publishers(body, "gpu-1");
        let address = |text| TcpAddress::parse(text).unwrap();
        assert_eq!(
            found,
            [
                Publisher {
                    attach: Attach::Connect(address("tcp://10.0.0.9:14")),
                    replay: Some(address("tcp://gpu-1:16")),
                    topic: "".into(),
                },
                Publisher {
                    attach: Attach::Connect(address("tcp://gpu-1:15")),
                    replay: None,
                    topic: "t".into()
                },
            ]
        );
    }

    #[test]
    fn an_answer_of_another_form_names_nobody() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"0": 1}"#,
            r#"{"x": {"endpoint": "tcp://*:1"}}"#,
            r#"{"detail": "Not Found"}"#,
        ] {
            assert!(publishers(body.as_bytes(), "a").is_empty(), "{body}");
        }
    }
}
