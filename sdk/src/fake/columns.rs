//! The names of the contract, with handles of this thread's own.

use std::collections::HashMap;

const KNOWN: &[&str] = &[
    "prefix.tokens",
    "prefix.ratio",
    "prefix.gpu_tokens",
    "prefix.occupancy",
    "prefix.cpu_tokens",
    "prefix.disk_tokens",
    "prefix.rendezvous",
    "session.affinity",
    "session.state",
    "load.requests",
    "load.decoding",
    "load.prefill_tokens",
    "load.decode_tokens",
    "limit.requests",
    "engine.waiting",
    "engine.running",
    "engine.kv_usage",
    "engine.preemptions",
    "engine.kv_tokens",
    "engine.metrics_age_ms",
    "latency.ttft_ms",
    "latency.tpot_ms",
    "latency.least_tpot_ms",
    "latency.answer_ms",
    "latency.prefill_ms",
    "latency.transfer_ms",
    "rate.prefill_tokens_per_s",
    "rate.transfer_tokens_per_s",
    "health.success_ratio",
    "role.prefill",
    "role.decode",
    "weight",
    "lora.active",
    "lora.free",
    "flow.band",
    "flow.length",
    "flow.head_age_ms",
    "flow.head_cost",
    "flow.head_rank",
    "flow.head_deadline_ms",
    "flow.weight",
    "flow.inflight_tokens",
    "flow.served_tokens",
    "event.kind",
    "event.flow",
    "event.band",
    "event.endpoint",
    "event.at_ms",
    "event.prompt_tokens",
    "event.cached_tokens",
    "event.output_tokens",
];

/// Names that were resolved on this thread.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    names: Vec<String>,
    texts: HashMap<(String, String), f32>,
}

impl Registry {
    pub(crate) fn resolve(&mut self, name: &str) -> Result<u32, String> {
        if !KNOWN.contains(&name) && !name.starts_with("metric:") && !name.starts_with("label:") {
            let nearest = crate::config::nearest(name, KNOWN.iter().copied()).unwrap_or_default();
            return Err(format!("no column is named `{name}`; nearest: `{nearest}`"));
        }
        let position = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        Ok(u32::try_from(position).unwrap_or(u32::MAX))
    }

    pub(crate) fn name(&self, id: u32) -> Option<&str> {
        self.names.get(id as usize).map(String::as_str)
    }

    #[expect(clippy::cast_precision_loss, reason = "a test interns few texts")]
    pub(crate) fn intern(&mut self, key: &str, text: &str) -> f32 {
        let next = self.texts.len() as f32;
        *self.texts.entry((key.into(), text.into())).or_insert(next)
    }
}
