//! What tokenizing a request costs: a cold prompt, and the next turn of a conversation.
//!
//!     cargo bench -p sluicegate --bench tokens [-- MODEL_FOLDER]
//!
//! Without a folder a small vocabulary is taken, which makes more tokens of a text than a model's own does.
#![allow(clippy::expect_used, reason = "a benchmark that cannot start says why")]

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluicegate::tokens::Tokenizer;
use sluicegate::types::Api;

/// Bytes that are kept; enough for everything here.
const CACHE: usize = 256 << 20;
/// Tokens of the conversation.
const TURN: usize = 20_000;

fn main() {
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokens/fixtures/bytes");
    let folder = folder.map_or(fixture, PathBuf::from);
    println!("tokenizer: {}", folder.display());
    cold(&folder);
    turns(&folder);
}

fn load(folder: &Path, cache: usize) -> Tokenizer {
    Tokenizer::load(folder, cache).expect("the model's folder")
}

/// Prose that does not repeat itself.
fn prose(seed: usize, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "the", "request", "waits", "until", "an", "endpoint", "is", "free", "and", "then", "its", "prefix",
        "weather", "router,", "cached.", "42",
    ];
    let mut state = seed as u64 * 2 + 1;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = usize::try_from(state >> 60).unwrap_or(0);
        text.push_str(WORDS.get(word).unwrap_or(&"x"));
        text.push(' ');
    }
    text
}

fn cold(folder: &Path) {
    let tokenizer = load(folder, 0);
    for bytes in [4 << 10, 80 << 10, 4 << 20] {
        let text = prose(bytes, bytes);
        let body = serde_json::json!({ "prompt": text }).to_string();
        let mut tokens = 0;
        let took = best(5, || {
            tokens = tokenizer.tokens(Api::Completions, body.as_bytes()).expect("ids").len();
        });
        let rate = bytes as f64 / took.as_secs_f64() / 1e6;
        println!("cold, {bytes:>8} bytes, {tokens:>8} tokens: {:>10.1} µs, {rate:.1} MB/s", micros(took));
    }
}

fn turns(folder: &Path) {
    let tokenizer = load(folder, CACHE);
    let mut messages = Vec::new();
    let mut body = String::new();
    let mut tokens = 0;
    while tokens < TURN {
        let at = messages.len();
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        messages.push(serde_json::json!({ "role": role, "content": prose(at, 800) }));
        body = serde_json::json!({ "model": "m", "messages": messages }).to_string();
        match tokenizer.tokens(Api::Chat, body.as_bytes()) {
            Ok(ids) => tokens = ids.len(),
            Err(why) => return println!("no conversations: {why}"),
        }
    }
    let again = best(50, || {
        black_box(tokenizer.tokens(Api::Chat, body.as_bytes()).expect("ids"));
    });
    let mut turn = 0;
    let next = best(50, || {
        turn += 1;
        let mut longer = messages.clone();
        longer.push(serde_json::json!({ "role": "user", "content": prose(1_000 + turn, 400) }));
        let body = serde_json::json!({ "model": "m", "messages": longer }).to_string();
        let began = Instant::now();
        black_box(tokenizer.tokens(Api::Chat, body.as_bytes()).expect("ids"));
        began.elapsed()
    });
    let uncached = load(folder, 0);
    let cold = best(5, || {
        black_box(uncached.tokens(Api::Chat, body.as_bytes()).expect("ids"));
    });
    println!("a conversation of {} messages, {} bytes, {tokens} tokens:", messages.len(), body.len());
    println!(
        "  cold {:.0} µs; the same again {:.0} µs; with 400 bytes more {:.0} µs",
        micros(cold),
        micros(again),
        micros(next)
    );
}

/// What a measurement took: the whole call, or what it says itself.
trait Took {
    fn of(self, whole: Duration) -> Duration;
}

impl Took for () {
    fn of(self, whole: Duration) -> Duration {
        whole
    }
}

impl Took for Duration {
    fn of(self, _: Duration) -> Duration {
        self
    }
}

fn best<T: Took>(times: usize, mut call: impl FnMut() -> T) -> Duration {
    let once = |_| {
        let began = Instant::now();
        let took = call();
        took.of(began.elapsed())
    };
    (0..times).map(once).min().unwrap_or_default()
}

fn micros(took: Duration) -> f64 {
    took.as_secs_f64() * 1e6
}
