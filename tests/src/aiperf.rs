//! NVIDIA's aiperf, a load generator that people measure model servers with.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::places;

/// aiperf finds tokenizers by the name of a model on a hub; this one's stands in a cache made for it.
const MODEL: &str = "local/tiny";
/// The commit that the cache says it holds.
const COMMIT: &str = "0000000000000000000000000000000000000000";

/// Sends this many streamed chats, `at_once` at a time, to the model `tiny` at a URL; says what aiperf sums up.
///
/// # Panics
/// When it does not come to a summary; shows what it printed.
pub async fn aiperf(url: &str, requests: u32, at_once: u32) -> Value {
    let folder = TempDir::new().unwrap();
    let (hub, artifacts) = (folder.path().join("hub"), folder.path().join("artifacts"));
    cache_tokenizer(&hub);
    let mut aiperf = Command::new(places::aiperf().join("bin/aiperf"));
    aiperf.args(["profile", "--model", "tiny", "--url", url, "--endpoint-type", "chat", "--streaming"]);
    aiperf.args(["--tokenizer", MODEL, "--synthetic-input-tokens-mean", "200", "--output-tokens-mean", "16"]);
    aiperf.args(["--request-count", &requests.to_string(), "--concurrency", &at_once.to_string()]);
    aiperf.args(["--ui-type", "none", "--no-gpu-telemetry", "--artifact-dir"]).arg(&artifacts);
    aiperf.envs([("HF_HUB_OFFLINE", "1"), ("TRANSFORMERS_OFFLINE", "1")]).env("HF_HUB_CACHE", &hub);
    let output = aiperf.current_dir(folder.path()).kill_on_drop(true).output().await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    eprintln!("{printed}");
    let summary = fs::read(artifacts.join("profile_export_aiperf.json"));
    let summary = summary.unwrap_or_else(|error| panic!("no summary: {error}\n{printed}"));
    serde_json::from_slice(&summary).unwrap()
}

fn cache_tokenizer(hub: &Path) {
    let entry = hub.join("models--local--tiny");
    fs::create_dir_all(entry.join("refs")).unwrap();
    fs::create_dir_all(entry.join("snapshots")).unwrap();
    fs::write(entry.join("refs/main"), COMMIT).unwrap();
    symlink(places::model(), entry.join("snapshots").join(COMMIT)).unwrap();
}
