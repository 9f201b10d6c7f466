//! llama.cpp. Its metrics do not say how full the KV cache is; its slots do, where it shows them.

use serde::Deserialize;

use super::Metrics;

pub(super) const METRICS: Metrics = &[
    ("llamacpp:requests_deferred", |page, sample| page.waiting.add(sample.value)),
    ("llamacpp:requests_processing", |page, sample| page.running.add(sample.value)),
    // Until 2025.
    ("llamacpp:kv_cache_usage_ratio", |page, sample| page.kv_usage.add(sample.value)),
];

/// A slot as `/slots` shows it. Every version has shown another choice of these.
#[derive(Debug, Deserialize)]
struct Slot {
    #[serde(default)]
    n_ctx: f64,
    is_processing: Option<bool>,
    /// In place of `is_processing` in old versions: 0 is idle.
    state: Option<i64>,
    /// Tokens in the slot's context.
    n_past: Option<f64>,
    n_prompt_tokens_processed: Option<f64>,
    n_prompt_tokens_cache: Option<f64>,
    #[serde(default)]
    next_token: Next,
}

/// What a slot generates: an object in some versions, a list of one in others.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Next {
    One(Decoded),
    Many(Vec<Decoded>),
    #[default]
    None,
}

#[derive(Debug, Deserialize)]
struct Decoded {
    #[serde(default)]
    n_decoded: f64,
}

impl Slot {
    fn busy(&self) -> bool {
        self.is_processing.unwrap_or_else(|| self.state.is_none_or(|state| state != 0))
    }

    fn tokens(&self) -> Option<f64> {
        if self.n_past.is_some() {
            return self.n_past;
        }
        let decoded: f64 = match &self.next_token {
            Next::One(decoded) => decoded.n_decoded,
            Next::Many(all) => all.iter().map(|decoded| decoded.n_decoded).sum(),
            Next::None => 0.0,
        };
        Some(self.n_prompt_tokens_processed? + self.n_prompt_tokens_cache.unwrap_or(0.0) + decoded)
    }
}

/// What the slots say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slots {
    /// Slots that work.
    pub(crate) running: u32,
    /// Share of all contexts that working slots use; what an idle slot keeps is only a cache. None
    /// where the slots do not say.
    pub(crate) kv_usage: Option<f64>,
}

/// Reads the answer of `/slots`.
pub(crate) fn slots(body: &[u8]) -> Option<Slots> {
    let slots: Vec<Slot> = serde_json::from_slice(body).ok()?;
    let room: f64 = slots.iter().map(|slot| slot.n_ctx).sum();
    let busy = || slots.iter().filter(|slot| slot.busy());
    let used: Option<f64> = busy().map(Slot::tokens).sum();
    let kv_usage = used.filter(|_| room > 0.0).map(|used| (used / room).clamp(0.0, 1.0));
    Some(Slots { running: u32::try_from(busy().count()).unwrap_or(u32::MAX), kv_usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_several_versions_are_read() {
        for (body, running, kv_usage) in [
            ("[]", 0, None),
            (r#"[{"id":0,"n_ctx":100,"is_processing":false,"n_past":90}]"#, 0, Some(0.0)),
            (r#"[{"n_ctx":100,"state":1,"n_past":25},{"n_ctx":100,"state":0,"n_past":7}]"#, 1, Some(0.125)),
            (
                r#"[{"n_ctx":100,"is_processing":true,"n_prompt_tokens_processed":10,"n_prompt_tokens_cache":20,"next_token":[{"n_decoded":5}]}]"#,
                1,
                Some(0.35),
            ),
            (
                r#"[{"n_ctx":100,"is_processing":true,"n_prompt_tokens_processed":10,"next_token":{"n_decoded":5,"x":1}}]"#,
                1,
                Some(0.15),
            ),
            (r#"[{"id":1,"n_ctx":100,"is_processing":true}]"#, 1, None),
            (r#"[{"is_processing":true,"n_past":1}]"#, 1, None),
        ] {
            assert_eq!(slots(body.as_bytes()), Some(Slots { running, kv_usage }), "{body}");
        }
        assert_eq!(slots(b"{}"), None);
        assert_eq!(slots(b"\xff"), None);
    }
}
