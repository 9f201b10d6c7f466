//! The loads, and what they cost a server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LOAD_CPU, written};
use crate::bench::process::Server;
use crate::error::Error;
use crate::run::show;

/// Requests of one kind over so many connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Length of a body.
    bytes: usize,
    connections: u32,
    /// Answers come as events, one a token.
    pub(super) streams: bool,
}

/// Tokens, and so events, of a streamed answer.
const EVENTS: u32 = 1_000;

/// All of them.
pub(super) const LOADS: [Load; 7] = [
    short("small-32", "bodies of 1.2 KB, 32 connections", 32),
    short("small-1", "bodies of 1.2 KB, one connection", 1),
    short("small-512", "bodies of 1.2 KB, 512 connections", 512),
    long("large-32", "bodies of 220 KB, 32 connections", 32),
    long("large-1", "bodies of 220 KB, one connection", 1),
    long("large-512", "bodies of 220 KB, 512 connections", 512),
    Load {
        name: "streams-32",
        about: "bodies of 1.2 KB, 32 connections, answers of 1,000 events",
        bytes: 1_200,
        connections: 32,
        streams: true,
    },
];

const fn short(name: &'static str, about: &'static str, connections: u32) -> Load {
    Load { name, about, bytes: 1_200, connections, streams: false }
}

const fn long(name: &'static str, about: &'static str, connections: u32) -> Load {
    Load { name, about, bytes: 220_000, connections, streams: false }
}

/// What a load cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Microseconds of CPU time a request.
    pub(super) micros: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) per_second: f64,
    pub(super) resident_mib: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { micros, p50_ms, p99_ms, per_second, .. } = self;
        write!(
            f,
            "{micros:.1} µs a request, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, {per_second:.0} requests/s"
        )
    }
}

impl Load {
    /// A wrk script whose requests share a system prompt and end in one of many questions.
    pub(super) fn script(&self, folder: &Path) -> Result<PathBuf, Error> {
        let (max_tokens, stream) = if self.streams { (EVENTS, "true") } else { (4, "false") };
        let text = format!(
            "local pad = string.rep('You are a helpful assistant. ', {})\nlocal n = 0\n\
             wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
             request = function()\n n = n + 1\n \
             return wrk.format(nil, nil, nil, '{{\"model\":\"tiny\",\"max_tokens\":{max_tokens},\"stream\":{stream},\"messages\":[{{\"role\":\"system\",\"content\":\"' .. pad .. '\"}},{{\"role\":\"user\",\"content\":\"question ' .. (n % 1000) .. '\"}}]}}')\nend\n",
            self.bytes / 29
        );
        written(folder, &format!("{}.lua", self.name), &text)
    }

    /// Sends it to a server.
    pub(super) fn run(
        &self,
        wrk: &str,
        server: &Server,
        port: u16,
        script: &Path,
        seconds: u32,
    ) -> Result<Cost, Error> {
        let before = server.cpu_seconds();
        let mut load = Command::new("taskset");
        load.args(["-c", &LOAD_CPU.to_string(), wrk, "-t1", "--latency", "--timeout", "60s"])
            .arg(format!("-c{}", self.connections))
            .arg(format!("-d{seconds}s"))
            .arg("-s")
            .arg(script)
            .arg(format!("http://127.0.0.1:{port}/v1/chat/completions"));
        let output = load.output().map_err(Error::io(format!("cannot run {}", show(&load))))?;
        let used = server.cpu_seconds() - before;
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = || Error::Failed { program: show(&load), status: said.to_string() };
        if said.contains("Non-2xx") || said.contains("Socket errors") {
            return Err(failed());
        }
        let requests =
            said.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse::<f64>().ok());
        let requests = requests.filter(|requests| *requests > 0.0).ok_or_else(failed)?;
        Ok(Cost {
            micros: used * 1e6 / requests,
            p50_ms: percentile(&said, "50%").unwrap_or(f64::NAN),
            p99_ms: percentile(&said, "99%").unwrap_or(f64::NAN),
            per_second: requests / f64::from(seconds),
            resident_mib: server.resident_mib(),
        })
    }
}

/// A percentile in wrk's report, milliseconds.
fn percentile(said: &str, of: &str) -> Option<f64> {
    let value = said.lines().find_map(|line| line.trim().strip_prefix(of))?.trim();
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = value.strip_suffix(unit)?.parse().ok()?;
    match unit {
        "us" => Some(number / 1_000.0),
        "ms" => Some(number),
        "s" => Some(number * 1_000.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_read_in_any_unit() {
        let said = "  Latency Distribution\n     50%  912.00us\n     75%    2.10ms\n     99%    1.02s \n";
        assert_eq!(percentile(said, "50%"), Some(0.912));
        assert_eq!(percentile(said, "75%"), Some(2.1));
        assert_eq!(percentile(said, "99%"), Some(1_020.0));
        assert_eq!(percentile(said, "90%"), None);
    }
}
