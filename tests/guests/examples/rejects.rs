//! Admission that refuses the models of its configuration: `{"models": ["…"]}`.

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{Admission, Columns, EndpointsView, Error, Manifest, Policy, RequestView, Verdict};

sluicegate_sdk::config! {
    /// Whom to refuse.
    struct Config {
        /// Models that are refused.
        models: Vec<String> = Vec::new();
    }
}

struct Rejects(Config);

impl Policy for Rejects {
    fn manifest() -> Manifest {
        Manifest::new("rejects", "1.0.0", "refuses some models").with_schema(Config::schema())
    }

    fn configure(json: &str, _columns: &mut Columns) -> Result<Self, Error> {
        Ok(Self(Config::parse(json)?))
    }
}

impl Admission for Rejects {
    fn admit(&self, request: &dyn RequestView, _endpoints: &dyn EndpointsView) -> Verdict {
        let model = request.model();
        if self.0.models.contains(&model) {
            Verdict::retry_after(429, format!("{model} is busy"), 1_500)
        } else {
            Verdict::Accept
        }
    }
}

sluicegate_sdk::export!(Rejects: admission);
