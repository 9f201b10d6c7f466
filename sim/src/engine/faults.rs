//! Faults on demand.

use serde::{Deserialize, Serialize};

/// How requests go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They do not.
    #[default]
    None,
    /// The connection is closed before any byte of an answer.
    Refuse,
    /// The answer stops coming: at once, or after some tokens.
    Hang,
    /// The connection breaks in the midst of the answer.
    Cut,
    /// An error status; after some tokens of a stream, an error in the stream.
    Error,
    /// The answer begins late.
    Slow,
}

/// A fault and whom it hits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// What goes wrong.
    pub mode: Mode,
    /// Tokens answered before, for hang, cut and error in a stream.
    pub after_tokens: u64,
    /// Status of an error.
    pub status: u16,
    /// How many more requests it hits; without end when absent.
    pub times: Option<u64>,
    /// Milliseconds of delay when slow.
    pub delay_ms: u64,
    /// It hits paths that begin so; requests to inference paths when absent.
    pub path: Option<String>,
}

impl Default for Fault {
    fn default() -> Self {
        Self { mode: Mode::None, after_tokens: 0, status: 503, times: None, delay_ms: 1000, path: None }
    }
}

impl Fault {
    /// The fault that hits a request to `path`, which counts as one of its times.
    pub(super) fn strike(&mut self, path: &str, inference: bool) -> Option<Self> {
        let meant = self.path.as_ref().map_or(inference, |start| path.starts_with(start.as_str()));
        if self.mode == Mode::None || !meant {
            return None;
        }
        let struck = self.clone();
        if let Some(times) = &mut self.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                *self = Self::default();
            }
        }
        (struck.times != Some(0)).then_some(struck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_its_times_and_paths() {
        let mut fault: Fault = serde_json::from_str(r#"{"mode":"error","times":2}"#).unwrap();
        assert!(fault.strike("/v1/models", false).is_none());
        assert_eq!(fault.strike("/v1/completions", true).unwrap().status, 503);
        assert!(fault.strike("/v1/completions", true).is_some());
        assert!(fault.strike("/v1/completions", true).is_none());
        assert_eq!(fault, Fault::default());
    }

    #[test]
    fn a_path_can_be_named() {
        let mut fault: Fault = serde_json::from_str(r#"{"mode":"hang","path":"/metrics"}"#).unwrap();
        assert!(fault.strike("/v1/completions", true).is_none());
        assert!(fault.strike("/metrics", false).is_some());
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(serde_json::from_str::<Fault>(r#"{"mode":"error","after":2}"#).is_err());
    }
}
