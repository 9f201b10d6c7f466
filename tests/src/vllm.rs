//! A real vLLM on the CPU.

use std::process::Command;

use tokio::net::TcpListener;

use crate::child::Program;
use crate::places;
use crate::request::get;

/// A real vLLM with a tiny model that it calls `tiny`, able to hand over its cache; ended when it is dropped.
#[derive(Debug)]
pub struct VllmServer {
    url: String,
    _program: Program,
}

/// vLLM imports torch three times before it answers.
const STARTS: std::time::Duration = std::time::Duration::from_secs(900);

impl VllmServer {
    /// Starts one and waits until it answers, which takes a minute or two.
    ///
    /// # Panics
    /// When it does not answer within a quarter of an hour.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// One that publishes what it caches: to those who connect where the address is a wildcard, else by connecting
    /// there itself. Its cache is small, so that it has to forget.
    pub async fn publishing(address: &str, replay: Option<&str>) -> Self {
        let events = serde_json::json!({"enable_kv_cache_events": true, "publisher": "zmq", "endpoint": address,
            "replay_endpoint": replay, "topic": ""});
        let events = events.to_string();
        let small = ["--max-model-len", "1024", "--num-gpu-blocks-override", "64"];
        Self::with(&[&small[..], &["--kv-events-config", &events]].concat()).await
    }

    /// One with these flags besides; the last of a name counts.
    ///
    /// # Panics
    /// When it does not answer within a quarter of an hour.
    pub async fn with(flags: &[&str]) -> Self {
        let [port, side_channel] = [free_port().await, free_port().await];
        let transfer = r#"{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_buffer_device":"cpu"}"#;
        let mut command = Command::new(places::vllm().join("bin/python"));
        command.arg(places::script("vllm/serve.py")).arg(places::vllm().join("bin/vllm")).arg("serve");
        command.arg(places::model()).args(["--served-model-name", "tiny", "--host", "127.0.0.1"]);
        command.args(["--port", &port.to_string(), "--dtype", "bfloat16", "--max-model-len", "8192"]);
        command.args([
            "--max-num-seqs",
            "16",
            "--enforce-eager",
            "--enable-prefix-caching",
            "--block-size",
            "32",
        ]);
        command.args(["--enable-prompt-tokens-details", "--kv-transfer-config", transfer]);
        command.args(flags);
        command.envs([
            ("VLLM_CPU_KVCACHE_SPACE", "1"),
            ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
            ("OMP_NUM_THREADS", "1"),
            ("VLLM_NO_USAGE_STATS", "1"),
            ("DO_NOT_TRACK", "1"),
            ("HF_HUB_OFFLINE", "1"),
            ("TRANSFORMERS_OFFLINE", "1"),
            ("UCX_TLS", "tcp,shm,self"),
            ("UCX_NET_DEVICES", "lo"),
            ("VLLM_NIXL_SIDE_CHANNEL_HOST", "127.0.0.1"),
        ]);
        command.env("VLLM_NIXL_SIDE_CHANNEL_PORT", side_channel.to_string());
        let mut program = Program::start(&mut command).ends_with_stdin();
        let url = format!("http://127.0.0.1:{port}");
        let end = tokio::time::Instant::now() + STARTS;
        while !get(format!("{url}/health")).try_send().await.is_ok_and(|answer| answer.status() == 200) {
            assert!(program.running(), "vLLM ended before it answered");
            assert!(tokio::time::Instant::now() < end, "vLLM does not answer");
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        }
        Self { url, _program: program }
    }

    /// Its base URL.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }
}

/// A port that is free now. vLLM takes no port 0.
///
/// # Panics
/// When there is none.
pub async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}
