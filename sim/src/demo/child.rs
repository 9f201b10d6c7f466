//! A server that runs as a child and ends with us.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a child may take to say where it listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Lines of its standard error that are kept.
const KEPT_LINES: usize = 20;

/// Why a child is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It did not start.
    #[error("cannot start {what}: {source}")]
    Start {
        /// What it was to be.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended, or said something else, or nothing.
    #[error("{what} did not print \"{wanted}…\" on standard output{said}")]
    Silent {
        /// What it was to be.
        what: String,
        /// How the line begins.
        wanted: &'static str,
        /// Its last words on standard error.
        said: String,
    },
}

/// A running child. Dropping it ends it.
pub(super) struct Server {
    what: String,
    // Dropped first to last: when its input closes, an engine ends by itself, and whatever does not is killed.
    _input: Option<ChildStdin>,
    _child: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
    complaints: Arc<Mutex<VecDeque<String>>>,
}

impl Server {
    /// Starts `command`.
    pub(super) fn start(what: impl Into<String>, mut command: Command) -> Result<Self, ChildError> {
        let what = what.into();
        let spawned = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(source) => return Err(ChildError::Start { what, source }),
        };
        let complaints = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let complaints = Arc::clone(&complaints);
            tokio::spawn(async move {
                let mut lines = BufReader::new(stderr).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let mut kept = complaints.lock();
                    if kept.len() >= KEPT_LINES {
                        kept.pop_front();
                    }
                    kept.push_back(line);
                }
            });
        }
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        Ok(Self { what, _input: child.stdin.take(), _child: child, lines, complaints })
    }

    /// Waits for a line of standard output that begins with `wanted`, and returns the rest of it.
    pub(super) async fn word(&mut self, wanted: &'static str) -> Result<String, ChildError> {
        let reading = async {
            let lines = self.lines.as_mut()?;
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(rest) = line.strip_prefix(wanted) {
                    return Some(rest.trim().to_owned());
                }
            }
            None
        };
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(Some(rest)) => Ok(rest),
            Ok(None) | Err(_) => {
                Err(ChildError::Silent { what: self.what.clone(), wanted, said: self.last_words() })
            }
        }
    }

    /// Goes on reading standard output, so that the child never waits for us.
    pub(super) fn drain(&mut self) {
        if let Some(lines) = self.lines.take() {
            tokio::spawn(drain(lines));
        }
    }

    /// What it last said on standard error, as an indented block.
    pub(super) fn last_words(&self) -> String {
        self.complaints.lock().iter().map(|line| format!("\n    {line}")).collect()
    }
}

async fn drain<R: AsyncRead + Unpin>(mut lines: Lines<BufReader<R>>) {
    while let Ok(Some(_)) = lines.next_line().await {}
}
