//! Flags of `sluicegate-sim engine`.

use super::faults::{Fault, Mode};
use super::kv::Connector;
use crate::scheduler::Config;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What an engine is for in a P/D set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// It takes both legs.
    Both,
    /// It refuses decode legs.
    Prefill,
    /// It refuses prefill legs.
    Decode,
}

impl Role {
    /// Its name on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// How large and how fast an engine is.
#[derive(Debug, Clone, clap::Args)]
pub struct Sizes {
    /// Prompt tokens computed a second.
    #[arg(long, default_value_t = 15_000.0, value_name = "TOKENS")]
    pub prefill_rate: f64,
    /// Milliseconds of a step, whatever is in it: the time per output token of a lone request.
    #[arg(long, default_value_t = 8.0, value_name = "MS")]
    pub decode_ms: f64,
    /// Milliseconds that each decoding sequence adds to a step; a 64th of `--decode-ms` when not given.
    #[arg(long, value_name = "MS")]
    pub decode_seq_ms: Option<f64>,
    /// Sequences that may run at once.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub max_num_seqs: usize,
    /// Tokens computed in one step at most.
    #[arg(long, default_value_t = 8192, value_name = "N")]
    pub max_num_batched_tokens: usize,
    /// Longest prompt and answer together, in tokens; never more than the cache holds.
    #[arg(long, default_value_t = 131_072, value_name = "TOKENS")]
    pub max_model_len: usize,
    /// Blocks of the cache.
    #[arg(long, default_value_t = 16_384, value_name = "N")]
    pub num_blocks: usize,
    /// Tokens in a block.
    #[arg(long, default_value_t = 16, value_name = "TOKENS")]
    pub block_size: usize,
    /// Tokens a second that a decode engine fetches from a prefill engine.
    #[arg(long, default_value_t = 200_000.0, value_name = "TOKENS")]
    pub transfer_rate: f64,
    /// Seconds that a prefill engine keeps the blocks for a decode engine; not divided by `--speed-up`.
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    pub lease_s: f64,
    /// Divides all times of computing and transfer.
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    pub speed_up: f64,
}

/// Simulate a vLLM server.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// Name of the served model; repeat for aliases.
    #[arg(long = "model", default_value = "sim", value_name = "NAME")]
    pub models: Vec<String>,
    /// Name of a LoRA adapter that can be asked for as a model; repeat for more.
    #[arg(long = "lora", value_name = "NAME")]
    pub loras: Vec<String>,
    /// Name of this engine, in `/sim/state`, the header `x-sim-engine` and the engine id.
    #[arg(long, default_value = "sim", value_name = "NAME")]
    pub name: String,
    /// Determines the answers: engines with the same seed say the same.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How large and how fast it is.
    #[command(flatten)]
    pub sizes: Sizes,
    /// Role in a P/D set-up.
    #[arg(long, value_enum, default_value_t = Role::Both)]
    pub role: Role,
    /// What hands caches over.
    #[arg(long, value_enum, default_value_t = Connector::Nixl)]
    pub connector: Connector,
    /// With the storage connector: the folder that engines share.
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
    /// Folder of a model's tokenizer and chat template: prompts and answers are made of its tokens.
    #[arg(long, value_name = "FOLDER")]
    pub tokenizer: Option<PathBuf>,
    /// Begin with this fault, as if it had been posted to `/sim/faults`.
    #[arg(long, value_enum, value_name = "MODE")]
    pub fault: Option<Mode>,
    /// With a fault of mode cut, hang or error: answer so many tokens first.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub fault_after_tokens: u64,
    /// With a fault of mode error: the status.
    #[arg(long, default_value_t = 503, value_name = "STATUS")]
    pub fault_status: u16,
    /// How many requests the fault hits; all when not given.
    #[arg(long, value_name = "N")]
    pub fault_times: Option<u64>,
    /// With a fault of mode slow: milliseconds before the answer begins.
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    pub fault_delay_ms: u64,
    /// Answered requests that `/sim/state` remembers.
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub keep_records: usize,
    /// Publish what is cached, as vLLM does: `tcp://HOST:PORT` to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub kv_events: Option<String>,
    /// With `--kv-events`: where what was published can be asked for again.
    #[arg(long, value_name = "ADDR", requires = "kv_events")]
    pub kv_events_replay: Option<String>,
    /// With `--kv-events`: the topic of the messages.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub kv_events_topic: String,
    /// End when standard input is closed: a child does not outlive its parent.
    #[arg(long)]
    pub until_stdin_closes: bool,
}

impl Sizes {
    /// The scheduler's sizes and speeds, speed-up applied.
    #[must_use]
    pub fn scheduler(&self) -> Config {
        let speed = if self.speed_up > 0.0 { self.speed_up } else { 1.0 };
        let base = self.decode_ms.max(0.0) * 1e6 / speed;
        Config {
            block_size: self.block_size.max(1),
            num_blocks: self.num_blocks.max(1),
            max_num_seqs: self.max_num_seqs.max(1),
            max_num_batched_tokens: self.max_num_batched_tokens.max(1),
            max_model_len: self.max_model_len.max(2),
            step_base: base,
            prefill_token: 1e9 / (self.prefill_rate.max(1e-3) * speed),
            decode_seq: self.decode_seq_ms.map_or(base / 64.0, |ms| ms.max(0.0) * 1e6 / speed),
            transfer_base: 2e6 / speed,
            transfer_token: 1e9 / (self.transfer_rate.max(1e-3) * speed),
            lease: (self.lease_s.max(0.0) * 1e9) as u64,
        }
    }
}

impl Args {
    /// The fault to begin with.
    #[must_use]
    pub fn first_fault(&self) -> Fault {
        Fault {
            mode: self.fault.unwrap_or(Mode::None),
            after_tokens: self.fault_after_tokens,
            status: self.fault_status,
            times: self.fault_times,
            delay_ms: self.fault_delay_ms,
            ..Fault::default()
        }
    }
}
