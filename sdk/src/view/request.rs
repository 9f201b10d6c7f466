//! One request.

/// The API through which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Api {
    /// `POST /v1/chat/completions`
    #[default]
    Chat,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/embeddings`
    Embeddings,
    /// An engine's own `POST /generate`
    Generate,
    /// Any other path; passed through.
    Other,
}

/// One request. What returns text copies it: read once what is needed twice.
pub trait RequestView {
    /// The request id, as in the header `x-request-id`.
    fn id(&self) -> String;
    /// The API through which it came.
    fn api(&self) -> Api;
    /// The path without its query, such as `/v1/chat/completions`.
    fn path(&self) -> String;
    /// The model after aliases and rewrites.
    fn model(&self) -> String;
    /// LoRA adapter, when the model names one.
    fn adapter(&self) -> Option<String>;
    /// Who called, when callers are known.
    fn tenant(&self) -> Option<String>;
    /// Fairness id; empty for the default flow.
    fn flow(&self) -> String;
    /// Higher first; negative is sheddable.
    fn priority(&self) -> i32;
    /// Session id, when one is known.
    fn session(&self) -> Option<String>;
    /// Turns already seen in this session; 0 on the first.
    fn turn(&self) -> u32;
    /// Prompt length in tokens; an estimate unless [`prompt_tokens_exact`](Self::prompt_tokens_exact).
    fn prompt_tokens(&self) -> u32;
    /// Whether the prompt length was counted by the model's own tokenizer or came as token ids.
    fn prompt_tokens_exact(&self) -> bool;
    /// Chained hashes of the first blocks of the prompt, `max` at most: equal keys, equal prefix.
    fn prefix_keys(&self, max: u32) -> Vec<u64>;
    /// The limit on output tokens that the client set.
    fn max_output_tokens(&self) -> Option<u32>;
    /// Whether the client asked for a stream.
    fn streaming(&self) -> bool;
    /// Target for the time to first token in milliseconds, when the client set one.
    fn ttft_target(&self) -> Option<f32>;
    /// Target for the time per output token in milliseconds, when the client set one.
    fn tpot_target(&self) -> Option<f32>;
    /// Milliseconds that the client allows it to wait, when it set a limit.
    fn ttl_ms(&self) -> Option<u32>;
    /// Milliseconds since the request arrived.
    fn age_ms(&self) -> u32;
    /// A header, when the operator grants it to this plugin (`grant = ["header:NAME"]`).
    fn header(&self, name: &str) -> Option<String>;
    /// The body, when the operator grants it to this plugin (`grant = ["body"]`).
    fn body(&self) -> Option<Vec<u8>>;
}
