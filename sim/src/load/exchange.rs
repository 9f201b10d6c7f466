//! One request over the wire.

use super::args::{Api, Args};
use super::sample::{Sample, Trouble};
use super::sse::{StreamReader, Usage};
use super::workload::Conversation;
use crate::web::Http;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde::Deserialize;
use std::time::{Duration, Instant};

/// Everything that requests of a run have in common.
pub(super) struct Exchange {
    pub(super) http: Http,
    pub(super) args: Args,
    pub(super) model: String,
    /// Whether requests belong to conversations: each names its own, and the text of its answer is needed.
    pub(super) conversations: bool,
}

#[derive(Deserialize)]
struct Whole {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

impl Exchange {
    /// Sends the `number`-th request and reads its answer; the text is there when it is needed and nothing failed.
    pub(super) async fn send(&self, number: u64, conversation: &Conversation) -> (Sample, Option<String>) {
        let begin = Instant::now();
        let mut sample = Sample::default();
        let limit = Duration::from_secs_f64(self.args.timeout_s.max(0.001));
        let outcome =
            tokio::time::timeout(limit, self.exchange(number, conversation, begin, &mut sample)).await;
        sample.latency = begin.elapsed();
        match outcome {
            Ok(Ok(text)) => (sample, Some(text)),
            Ok(Err(trouble)) => {
                sample.trouble = Some(trouble);
                (sample, None)
            }
            Err(_) => {
                sample.trouble = Some(Trouble::Timeout);
                (sample, None)
            }
        }
    }

    async fn exchange(
        &self,
        number: u64,
        conversation: &Conversation,
        begin: Instant,
        sample: &mut Sample,
    ) -> Result<String, Trouble> {
        let request = self.request(number, conversation).map_err(|_| Trouble::Connect)?;
        let response = self
            .http
            .request(request)
            .await
            .map_err(|error| if error.is_connect() { Trouble::Connect } else { Trouble::NoAnswer })?;
        sample.endpoint = header(response.headers(), "x-sluicegate-endpoint");
        if !response.status().is_success() {
            let reason = header(response.headers(), "x-llm-d-request-dropped-reason");
            let trouble = Trouble::status(response.status(), reason);
            // Read to its end, so that the connection can be used again.
            let _rest = response.into_body().collect().await;
            return Err(trouble);
        }
        if self.args.stream {
            self.read_stream(response, begin, sample).await
        } else {
            read_whole(response, sample).await
        }
    }

    fn request(&self, number: u64, conversation: &Conversation) -> Result<Request<Full<Bytes>>, http::Error> {
        let rotate = |count: usize| (number % count.max(1) as u64) as usize;
        let url = self.args.urls.get(rotate(self.args.urls.len())).map_or("", String::as_str);
        let path = match self.args.traffic.api {
            Api::Chat => "/v1/chat/completions",
            Api::Completions => "/v1/completions",
        };
        let mut request = Request::post(format!("{}{path}", url.trim_end_matches('/')))
            .header(http::header::CONTENT_TYPE, "application/json");
        if self.conversations {
            request =
                request.header("x-session-id", format!("sim-{}-{}", self.args.traffic.seed, conversation.id));
        }
        if let Some(flow) = self.args.traffic.flows.get(rotate(self.args.traffic.flows.len())) {
            request = request.header("x-llm-d-inference-fairness-id", flow);
        }
        if let Some(priority) = self.args.traffic.priority {
            request = request.header("x-sluicegate-priority", priority);
        }
        request.body(Full::new(Bytes::from(conversation.body(
            self.args.traffic.api,
            self.args.stream,
            &self.model,
        ))))
    }

    async fn read_stream(
        &self,
        response: Response<Incoming>,
        begin: Instant,
        sample: &mut Sample,
    ) -> Result<String, Trouble> {
        let mut body = response.into_body();
        let mut reader = StreamReader::new(self.conversations);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Trouble::Broken)?;
            let Some(data) = frame.data_ref() else { continue };
            reader.push(data);
            if sample.ttft.is_none() && reader.summary().pieces > 0 {
                sample.ttft = Some(begin.elapsed());
            }
        }
        let summary = reader.finish();
        sample.prompt_tokens = summary.prompt_tokens.unwrap_or(0);
        sample.cached_tokens = summary.cached_tokens.unwrap_or(0);
        sample.output_tokens = summary.output_tokens.unwrap_or(summary.pieces);
        match (summary.error, summary.done) {
            (true, _) => Err(Trouble::InStream),
            (false, false) => Err(Trouble::Truncated),
            (false, true) => Ok(summary.text),
        }
    }
}

async fn read_whole(response: Response<Incoming>, sample: &mut Sample) -> Result<String, Trouble> {
    let bytes = response.into_body().collect().await.map_err(|_| Trouble::Broken)?.to_bytes();
    let whole: Whole = serde_json::from_slice(&bytes).map_err(|_| Trouble::Truncated)?;
    if let Some(usage) = whole.usage {
        sample.prompt_tokens = usage.prompt_tokens.unwrap_or(0);
        sample.output_tokens = usage.completion_tokens.unwrap_or(0);
        sample.cached_tokens =
            usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0);
    }
    let choice = whole.choices.into_iter().next();
    Ok(choice.and_then(|c| c.text.or_else(|| c.message.and_then(|m| m.content))).unwrap_or_default())
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}
