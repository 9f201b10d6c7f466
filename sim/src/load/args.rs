//! Flags of `sluicegate-sim load`.

/// Which API the traffic uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Api {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST /v1/completions`
    Completions,
}

/// What is asked, and when.
#[derive(Debug, Clone, clap::Args)]
pub struct Traffic {
    /// API to use.
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    pub api: Api,
    /// Open loop: requests a second, at random (Poisson) times whatever is answered.
    #[arg(long, value_name = "PER_S", conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Closed loop: requests under way at once.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub concurrency: usize,
    /// Closed loop: seconds over which the senders begin one after another.
    #[arg(long, default_value_t = 0.0, value_name = "S")]
    pub ramp_s: f64,
    /// End after so many requests; without it and `--duration`: every session once, or 100.
    #[arg(long, value_name = "N")]
    pub requests: Option<u64>,
    /// Start no request after so many seconds.
    #[arg(long, value_name = "S")]
    pub duration: Option<f64>,
    /// Different shared prefixes.
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub groups: u64,
    /// Share of the single questions that begin with the first prefix, whatever is left goes to all alike.
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    pub hot_share: f64,
    /// Tokens of a shared prefix (4 bytes each).
    #[arg(long, default_value_t = 1024, value_name = "TOKENS")]
    pub prefix_tokens: usize,
    /// Tokens of a question.
    #[arg(long, default_value_t = 64, value_name = "TOKENS")]
    pub question_tokens: usize,
    /// Share of the single questions that are long instead.
    #[arg(long, default_value_t = 0.0, value_name = "0..1")]
    pub long_share: f64,
    /// Tokens of a long question.
    #[arg(long, default_value_t = 8000, value_name = "TOKENS")]
    pub long_tokens: usize,
    /// Conversations under way at once, each with an `x-session-id`; 0 for single questions.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub sessions: u64,
    /// Turns of a conversation, after which a new one takes its place. Each turn carries all before it.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub turns: u32,
    /// Send what a file recorded instead of generated text: a JSON object a line, with `session_id`, `input` (the
    /// whole prompt of a turn) and `output`. `--sessions` of its sessions are under way at once, 8 when not given;
    /// each line is sent when the one before in its session has been answered, and asks for as many tokens as the
    /// recorded answer had.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<std::path::PathBuf>,
    /// Tokens to ask for.
    #[arg(long, default_value_t = 32, value_name = "TOKENS")]
    pub output_tokens: u32,
    /// Determines all text and times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Send `x-llm-d-inference-fairness-id`; given more than once, requests rotate over all.
    #[arg(long = "flow", value_name = "NAME")]
    pub flows: Vec<String>,
    /// Send `x-sluicegate-priority`.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
}

impl Traffic {
    /// Requests to send at most.
    #[must_use]
    pub fn limit(&self) -> u64 {
        match (self.requests, self.duration) {
            (Some(requests), _) => requests,
            (None, Some(_)) => u64::MAX,
            (None, None) if self.trace.is_some() => u64::MAX,
            (None, None) if self.sessions > 0 => self.sessions * u64::from(self.turns.max(1)),
            (None, None) => 100,
        }
    }
}

/// Send traffic and report what came of it.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Where to send, such as `http://127.0.0.1:8080`; given more than once, requests rotate over all.
    #[arg(long = "url", required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Model to ask for; the first of `/v1/models` when not given.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// What is asked, and when.
    #[command(flatten)]
    pub traffic: Traffic,
    /// Whether answers are streamed. Without a stream there is no time to the first token.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub stream: bool,
    /// Give up a request after so many seconds.
    #[arg(long, default_value_t = 120.0, value_name = "S")]
    pub timeout_s: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Exit with 0 though requests failed.
    #[arg(long)]
    pub allow_failures: bool,
}
