//! The record of a finished request, and how it is shown.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::handover::Handover;
use super::{Answer, Judgement, Seen, Tried};
use crate::clock::Nanos;
use crate::policy::{Facts, Registry};
use crate::pool::{Endpoint, OutOfUse};
use crate::route::columns::Columns;
use crate::types::{Arm, Profile};

/// The record of a finished request.
#[derive(Debug)]
pub struct Explanation {
    pub(super) facts: Facts,
    pub(super) arrived: Nanos,
    pub(super) asked: Option<Seen>,
    pub(super) split: Option<(Seen, u32)>,
    pub(super) pool: Box<str>,
    pub(super) chain: Box<str>,
    pub(super) generation: u64,
    pub(super) arm: Arm,
    pub(super) answers: Vec<Answer>,
    pub(super) judgements: Vec<Judgement>,
    pub(super) tried: Vec<Tried>,
    pub(super) out_of_use: Vec<(Arc<Endpoint>, OutOfUse)>,
    pub(super) served: Option<Arc<Endpoint>>,
    pub(super) handover: Handover,
    pub(super) queued_ms: f64,
    pub(super) policy_us: f64,
    pub(super) status: u16,
}

impl Explanation {
    /// The request's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.facts.id
    }

    /// The record as the admin API shows it.
    #[must_use]
    pub fn to_json(&self, registry: &Registry) -> Value {
        let decode = self.judgements.iter().find(|judgement| judgement.profile == Profile::Decode);
        let retried = self.tried.iter().map(|tried| &*tried.endpoint.name).collect::<Vec<_>>();
        let attempts =
            self.tried.iter().map(|tried| json!({"endpoint": tried.endpoint.name, "why": tried.why}));
        let out_of_use =
            self.out_of_use.iter().map(|(out, why)| json!({"endpoint": out.name, "why": why.as_str()}));
        json!({
            "request_id": self.facts.id,
            "api": self.facts.api,
            "model": self.facts.model,
            "tenant": self.facts.tenant,
            "priority": self.facts.priority,
            "session": self.facts.session,
            "prompt_tokens": self.facts.prompt_tokens,
            "prompt_tokens_exact": self.facts.prompt_tokens_exact,
            "tokenizer": self.facts.tokenizer,
            "pool": self.pool,
            "chain": self.chain,
            "generation": self.generation,
            "arm": if self.arm == Arm::BASE { "base" } else { "candidate" },
            "candidates": decode.map_or(json!([]), |judgement| names(&judgement.seen.endpoints)),
            "out_of_use": out_of_use.collect::<Vec<_>>(),
            "columns": decode.map_or(json!({}), |judgement| columns(&judgement.seen.columns, registry)),
            "prefix_known": decode.map_or(json!([]), |judgement| judgement.seen.known_json()),
            "answers": self.answers.iter().map(Answer::to_json).collect::<Vec<_>>(),
            "scores": decode.map_or(json!([]), Judgement::scores_json),
            "order": decode.map_or(json!([]), |judgement| names(&judgement.order)),
            "picked": decode.and_then(|judgement| judgement.order.first()).map(|endpoint| &endpoint.name),
            "retried": retried,
            "attempts": attempts.collect::<Vec<_>>(),
            "endpoint": self.served.as_ref().map(|endpoint| &endpoint.name),
            "prefill": self.handover.prefill(),
            "split": self.handover.to_json(),
            "queued_ms": self.queued_ms,
            "policy_us": self.policy_us,
            "status": self.status,
        })
    }
}

impl Judgement {
    fn scores_json(&self) -> Value {
        let score = |endpoint: &Arc<Endpoint>| {
            let position = self.left.iter().position(|left| left.id == endpoint.id);
            position.and_then(|position| self.scores.get(position)).copied().unwrap_or(f32::NAN)
        };
        let scores: Vec<f32> = self.seen.endpoints.iter().map(score).collect();
        numbers(&scores)
    }
}

fn columns(columns: &Columns, registry: &Registry) -> Value {
    let named =
        columns.shown().filter_map(|(id, values)| Some((registry.name(id)?.to_string(), numbers(values))));
    Value::Object(named.collect::<Map<_, _>>())
}

pub(super) fn names(endpoints: &[Arc<Endpoint>]) -> Value {
    endpoints.iter().map(|endpoint| Value::from(&*endpoint.name)).collect()
}

/// Numbers, null where one is not known.
pub(super) fn numbers(values: &[f32]) -> Value {
    values.iter().map(|value| if value.is_finite() { Value::from(*value) } else { Value::Null }).collect()
}

impl Answer {
    fn to_json(&self) -> Value {
        let (values, error) = match &self.given {
            Ok(given) => (given.to_json(), Value::Null),
            Err(error) => (Value::Null, json!({"reason": error.reason, "message": error.message})),
        };
        json!({
            "plugin": self.plugin.name, "digest": self.plugin.digest, "generation": self.plugin.generation,
            "stage": self.stage.as_str(), "profile": self.profile, "weight": self.weight,
            "values": values, "error": error,
        })
    }
}

impl Seen {
    fn known_json(&self) -> Value {
        self.known.iter().map(|known| Value::from(known.as_str())).collect()
    }
}
