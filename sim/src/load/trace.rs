//! Conversations as somebody recorded them: prompts with their real text.

use crate::text::BYTES_PER_TOKEN;
use serde::Deserialize;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line is not one of a trace.
    #[error("{path}:{line}: {source} (expected an object with `session_id`, `input` and `output`)")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counts from 1.
        line: usize,
        /// Why not.
        source: serde_json::Error,
    },
    /// It has no line.
    #[error("{0} holds no request")]
    Empty(PathBuf),
}

#[derive(Deserialize)]
struct Line {
    session_id: serde_json::Value,
    input: String,
    #[serde(default)]
    output: String,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The whole prompt.
    pub input: String,
    /// Tokens of the answer, at least 1.
    pub output_tokens: u32,
}

/// All sessions of a file, in the order in which they begin there.
#[derive(Debug, Default)]
pub struct Trace {
    sessions: Vec<Vec<Recorded>>,
}

impl Trace {
    /// Reads a file of JSON lines.
    ///
    /// # Errors
    /// When it cannot be read, a line is of another form, or there is none.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Read { path: path.into(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let mut trace = Self::default();
        let mut known = HashMap::new();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(failed)?;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line).map_err(|source| TraceError::Line {
                path: path.into(),
                line: number + 1,
                source,
            })?;
            trace.add(&mut known, line);
        }
        if trace.sessions.is_empty() { Err(TraceError::Empty(path.into())) } else { Ok(trace) }
    }

    fn add(&mut self, known: &mut HashMap<String, usize>, line: Line) {
        let place = *known.entry(line.session_id.to_string()).or_insert_with(|| {
            self.sessions.push(Vec::new());
            self.sessions.len() - 1
        });
        let tokens = line.output.len().div_ceil(BYTES_PER_TOKEN).max(1);
        let turn = Recorded { input: line.input, output_tokens: u32::try_from(tokens).unwrap_or(u32::MAX) };
        if let Some(session) = self.sessions.get_mut(place) {
            session.push(turn);
        }
    }

    /// The sessions and their turns, the first of each last.
    pub(super) fn into_sessions(mut self) -> Vec<Vec<Recorded>> {
        self.sessions.reverse();
        self.sessions.iter_mut().for_each(|session| session.reverse());
        self.sessions
    }
}
