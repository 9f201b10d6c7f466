//! A decision in the few words that fit into a header of its answer.

use serde_json::{Value, json};

use super::{Answer, Trace};
use crate::types::Profile;

impl Trace {
    /// What has been decided so far, on one line: which versions of which plugins were asked and whether their
    /// answers could be used, what was picked, what was tried in vain, and what answers. The members are those of
    /// the record that [`Trace::finish`] leaves; candidates and numbers are only there.
    #[must_use]
    pub fn brief(&self) -> String {
        let decode = self.judgements.iter().find(|judgement| judgement.profile == Profile::Decode);
        let picked = decode.and_then(|judgement| judgement.order.first());
        json!({
            "pool": self.pool,
            "chain": self.chain,
            "generation": self.generation,
            "answers": self.answers.iter().map(Answer::brief).collect::<Vec<_>>(),
            "picked": picked.map(|endpoint| &endpoint.name),
            "retried": self.tried.iter().map(|tried| &*tried.endpoint.name).collect::<Vec<_>>(),
            "endpoint": self.served.as_ref().map(|endpoint| &endpoint.name),
            "prefill": self.handover.prefill(),
            "queued_ms": self.queued_ms,
            "policy_us": self.policy_us,
        })
        .to_string()
    }
}

impl Answer {
    fn brief(&self) -> Value {
        json!({
            "plugin": self.plugin.name, "digest": self.plugin.digest, "stage": self.stage.as_str(),
            "profile": self.profile, "error": self.given.as_ref().err().map(|error| error.reason),
        })
    }
}
