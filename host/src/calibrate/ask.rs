//! One prompt, and when its tokens come.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use crate::api::UsageScan;
use crate::types::{Api, BYTES_PER_TOKEN, Url};

/// Bytes of an answer of the endpoint that are shown.
const SHOWN: usize = 300;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It does not answer.
    #[error("{0} does not answer: {1}")]
    Unreachable(String, String),
    /// It refuses.
    #[error("{path} answers {status}: {said}")]
    Refused {
        /// What was asked.
        path: &'static str,
        /// Its status.
        status: StatusCode,
        /// What it said.
        said: String,
    },
    /// It lists no model.
    #[error("/v1/models lists no model; name one with --model")]
    NoModel,
    /// The answer took too long.
    #[error("no whole answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// Its streams carry no token, or no count of the prompt's.
    #[error("its streams carry no tokens or no usage: nothing can be told")]
    NoTokens,
    /// Longer prompts do not take longer.
    #[error("longer prompts do not take it longer: they are cached, or something else keeps it busy")]
    NoRate,
}

/// What came of one prompt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Asked {
    /// By the engine's count.
    pub(super) prompt_tokens: u32,
    pub(super) ttft_ms: f64,
    /// None where fewer than two tokens came.
    pub(super) tpot_ms: Option<f64>,
}

/// The endpoint that is measured.
pub(super) struct Endpoint {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    timeout: Duration,
    prompts: AtomicU64,
    random: RandomState,
    pub(super) model: String,
}

impl Endpoint {
    pub(super) async fn connect(
        url: &Url,
        model: Option<String>,
        timeout: Duration,
    ) -> Result<Self, AskError> {
        let mut endpoint = Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            base: url.to_string(),
            timeout,
            prompts: AtomicU64::new(0),
            random: RandomState::new(),
            model: model.unwrap_or_default(),
        };
        if endpoint.model.is_empty() {
            endpoint.model = endpoint.first_model().await?;
        }
        Ok(endpoint)
    }

    async fn first_model(&self) -> Result<String, AskError> {
        let mut list = Vec::new();
        self.send(http::Method::GET, "/v1/models", Bytes::new(), |piece| list.extend_from_slice(piece))
            .await?;
        let list: Value = serde_json::from_slice(&list).unwrap_or_default();
        let model = list.pointer("/data/0/id").and_then(Value::as_str);
        model.map(str::to_owned).ok_or(AskError::NoModel)
    }

    /// Sends a prompt of about `tokens` tokens that nobody has seen, and takes `output` tokens of answer.
    pub(super) async fn ask(&self, tokens: usize, output: u32) -> Result<Asked, AskError> {
        let body = json!({"model": self.model, "prompt": self.prompt(tokens), "max_tokens": output,
            "stream": true, "stream_options": {"include_usage": true}, "ignore_eos": true, "temperature": 0});
        let mut scan = UsageScan::new(Api::Completions, true);
        let (mut first, mut last) = (None, None);
        let begin = Instant::now();
        let take = |piece: &[u8]| {
            let before = scan.chunks();
            scan.feed(piece);
            if scan.chunks() > before {
                first.get_or_insert_with(|| begin.elapsed());
                last = Some(begin.elapsed());
            }
        };
        self.send(http::Method::POST, "/v1/completions", body.to_string().into(), take).await?;
        let (first, last) = first.zip(last).ok_or(AskError::NoTokens)?;
        let gaps = scan.chunks().saturating_sub(1);
        let usage = scan.finish().ok_or(AskError::NoTokens)?;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let tpot_ms = (gaps > 0).then(|| ms(last.saturating_sub(first)) / f64::from(gaps));
        Ok(Asked { prompt_tokens: usage.prompt_tokens, ttft_ms: ms(first), tpot_ms })
    }

    /// Words that no cache holds: other ones in every process and at every call.
    fn prompt(&self, tokens: usize) -> String {
        let number = self.prompts.fetch_add(1, Ordering::Relaxed);
        let mut text = String::with_capacity(tokens * BYTES_PER_TOKEN + 16);
        let mut word = 0_u64;
        while text.len() < tokens * BYTES_PER_TOKEN {
            word += 1;
            let bits = self.random.hash_one((number, word));
            text.extend((0..3 + bits % 5).map(|at| letter(bits >> (8 + 5 * at))));
            text.push(' ');
        }
        text
    }

    async fn send(
        &self,
        method: http::Method,
        path: &'static str,
        body: Bytes,
        take: impl FnMut(&[u8]),
    ) -> Result<(), AskError> {
        let whole = self.exchange(method, path, body, take);
        tokio::time::timeout(self.timeout, whole).await.unwrap_or(Err(AskError::Timeout(self.timeout)))
    }

    async fn exchange(
        &self,
        method: http::Method,
        path: &'static str,
        body: Bytes,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), AskError> {
        let lost = |error: &dyn std::error::Error| {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            AskError::Unreachable(self.base.clone(), format!("{error}{cause}"))
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| lost(&error))?;
        let answer = self.client.request(request).await.map_err(|error| lost(&error))?;
        let status = answer.status();
        let mut body = answer.into_body();
        let mut said = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| lost(&error))?;
            let Some(piece) = frame.data_ref() else { continue };
            if status.is_success() {
                take(piece);
            } else if said.len() < SHOWN {
                said.extend_from_slice(piece);
            }
        }
        if status.is_success() {
            return Ok(());
        }
        said.truncate(SHOWN);
        Err(AskError::Refused { path, status, said: String::from_utf8_lossy(&said).into_owned() })
    }
}

/// A letter of the alphabet.
fn letter(bits: u64) -> char {
    char::from(b'a' + u8::try_from(bits % 26).unwrap_or_default())
}
