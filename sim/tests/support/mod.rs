//! Drives the real binary over sockets.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper that fails is a test that fails"
)]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take, on a machine however busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test.
pub fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_sluicegate-sim"))
}

/// A running engine, ended when dropped.
pub struct Engine {
    child: Child,
    pub url: String,
    pub address: String,
}

impl Engine {
    /// Starts an engine with the flags in `line`.
    pub fn start(line: &str) -> Self {
        let mut child = binary()
            .arg("engine")
            .args(line.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut said = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut said).expect("it says where it listens");
        let url = said.strip_prefix("listening on ").expect("the one line").trim().to_owned();
        let address = url.strip_prefix("http://").expect("an address").to_owned();
        Self { child, url, address }
    }

    /// Sends a request and leaves the answer to be read.
    pub fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
        stream
    }

    /// Sends a request and reads its answer to the end; status 0 when there was none.
    pub fn call(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.open(method, path, headers, body);
        let mut bytes = Vec::new();
        // An answer that breaks off is what it is.
        let _end = stream.read_to_end(&mut bytes);
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.call("POST", path, "", &body.to_string())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "", "")
    }

    pub fn state(&self) -> Value {
        self.get("/sim/state").json()
    }

    /// Asks for the state until it is as wanted.
    pub fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let state = self.state();
            if wanted(&state) {
                return state;
            }
            assert!(begin.elapsed() < PATIENCE, "never {what}: {state}");
        }
    }

    /// The value of one series on the metrics page.
    pub fn metric(&self, series: &str) -> f64 {
        let page = self.get("/metrics").body;
        let line = page
            .lines()
            .find(|line| line.starts_with(series))
            .unwrap_or_else(|| panic!("{series} in {page}"));
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
    /// Whether it came to its proper end.
    pub whole: bool,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let (body, whole) = if head.contains("transfer-encoding: chunked") {
            unchunk(rest)
        } else {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            (rest.to_owned(), rest.len() == length)
        };
        Self { status, head, body, whole }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The events of a stream: name and data.
    pub fn events(&self) -> Vec<(String, String)> {
        let mut name = String::new();
        let mut events = Vec::new();
        for line in self.body.lines() {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((std::mem::take(&mut name), data.to_owned()));
            }
        }
        events
    }
}

fn unchunk(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((size, tail)) = rest.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size, 16) else { break };
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = tail.get(..size) else { break };
        body.push_str(chunk);
        rest = tail.get(size + 2..).unwrap_or("");
    }
    (body, false)
}

/// A chat body.
pub fn chat(content: &str, max_tokens: u32) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens})
}

/// The same, streamed with its usage.
pub fn chat_stream(content: &str, max_tokens: u32) -> Value {
    let mut body = chat(content, max_tokens);
    body["stream"] = json!(true);
    body["stream_options"] = json!({"include_usage": true});
    body
}
