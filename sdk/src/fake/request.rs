//! A request made by hand.

use std::collections::BTreeMap;

use crate::{Api, RequestView};

/// A request; change the fields that matter.
///
/// ```
/// use sluicegate_sdk::{RequestView, fake};
/// let request = fake::Request { prompt_tokens: 4_000, ..fake::Request::default() };
/// assert_eq!(RequestView::prompt_tokens(&request), 4_000);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each field is what the function of that name in `RequestView` answers")]
pub struct Request {
    pub id: String,
    pub api: Api,
    pub path: String,
    pub model: String,
    pub adapter: Option<String>,
    pub tenant: Option<String>,
    pub flow: String,
    pub priority: i32,
    pub session: Option<String>,
    pub turn: u32,
    pub prompt_tokens: u32,
    pub prompt_tokens_exact: bool,
    pub prefix_keys: Vec<u64>,
    pub max_output_tokens: Option<u32>,
    pub streaming: bool,
    pub ttft_target: Option<f32>,
    pub tpot_target: Option<f32>,
    /// Milliseconds that the client allows it to wait.
    pub ttl_ms: Option<u32>,
    pub age_ms: u32,
    pub headers: BTreeMap<String, String>,
    pub body: Option<Vec<u8>>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            id: "request-1".into(),
            api: Api::Chat,
            path: "/v1/chat/completions".into(),
            model: "model".into(),
            adapter: None,
            tenant: None,
            flow: String::new(),
            priority: 0,
            session: None,
            turn: 0,
            prompt_tokens: 100,
            prompt_tokens_exact: false,
            prefix_keys: Vec::new(),
            max_output_tokens: None,
            streaming: true,
            ttft_target: None,
            tpot_target: None,
            ttl_ms: None,
            age_ms: 0,
            headers: BTreeMap::new(),
            body: None,
        }
    }
}

impl RequestView for Request {
    fn id(&self) -> String {
        self.id.clone()
    }
    fn api(&self) -> Api {
        self.api
    }
    fn path(&self) -> String {
        self.path.clone()
    }
    fn model(&self) -> String {
        self.model.clone()
    }
    fn adapter(&self) -> Option<String> {
        self.adapter.clone()
    }
    fn tenant(&self) -> Option<String> {
        self.tenant.clone()
    }
    fn flow(&self) -> String {
        self.flow.clone()
    }
    fn priority(&self) -> i32 {
        self.priority
    }
    fn session(&self) -> Option<String> {
        self.session.clone()
    }
    fn turn(&self) -> u32 {
        self.turn
    }
    fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }
    fn prompt_tokens_exact(&self) -> bool {
        self.prompt_tokens_exact
    }
    fn prefix_keys(&self, max: u32) -> Vec<u64> {
        self.prefix_keys.iter().take(max as usize).copied().collect()
    }
    fn max_output_tokens(&self) -> Option<u32> {
        self.max_output_tokens
    }
    fn streaming(&self) -> bool {
        self.streaming
    }
    fn ttft_target(&self) -> Option<f32> {
        self.ttft_target
    }
    fn tpot_target(&self) -> Option<f32> {
        self.tpot_target
    }
    fn ttl_ms(&self) -> Option<u32> {
        self.ttl_ms
    }
    fn age_ms(&self) -> u32 {
        self.age_ms
    }
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).cloned()
    }
    fn body(&self) -> Option<Vec<u8>> {
        self.body.clone()
    }
}
