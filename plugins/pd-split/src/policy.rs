//! From columns to legs.

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Column, Columns, Disaggregation, EndpointsView, Error, Leg, Manifest, Policy, RequestView, UnknownColumn,
};

use crate::cost::Pool;
use crate::{Config, Mode};

/// The policy.
pub struct PdSplit {
    config: Config,
    prefills: Column,
    decodes: Column,
    cached: Column,
    ahead: Column,
    rate: Column,
    requests: Column,
    labels: Vec<Column>,
}

impl Policy for PdSplit {
    fn manifest() -> Manifest {
        Manifest::new(
            "pd-split",
            env!("CARGO_PKG_VERSION"),
            "decides when a prompt is computed elsewhere than where it is decoded",
        )
        .with_schema(Config::schema())
    }

    fn configure(json: &str, columns: &mut Columns) -> Result<Self, Error> {
        let config = Config::parse(json)?;
        let label = |key: &String| columns.resolve(&format!("label:{key}")).map(|column| column.or(-1.0));
        let labels = config.match_labels.iter().map(label).collect::<Result<_, UnknownColumn>>()?;
        let mut column = |name: &str| columns.resolve(name).map(|column| column.or(0.0));
        Ok(Self {
            prefills: column("role.prefill")?,
            decodes: column("role.decode")?.or(1.0),
            cached: column("prefix.tokens")?,
            ahead: column("load.prefill_tokens")?,
            rate: column("rate.prefill_tokens_per_s")?,
            requests: column("load.requests")?,
            labels,
            config,
        })
    }
}

impl Disaggregation for PdSplit {
    fn split(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView, decode: usize) -> Vec<Leg> {
        if self.config.mode == Mode::Never {
            return Vec::new();
        }
        // Most pools end here: nobody to prefill elsewhere, and two columns were read.
        let Some(serves) = self.serves(endpoints, decode) else { return Vec::new() };
        #[expect(clippy::cast_precision_loss, reason = "prompts are far shorter than 2^24 tokens")]
        let pool = Pool {
            prompt: request.prompt_tokens() as f32,
            cached: endpoints.column(self.cached),
            ahead: endpoints.column(self.ahead),
            rate: endpoints.column(self.rate),
            serves,
            streams: endpoints.column(self.requests).get(decode).copied().unwrap_or(0.0),
        };
        let candidates = pool.split(decode, &self.config);
        if candidates.is_empty() { Vec::new() } else { vec![Leg::prefill(candidates)] }
    }
}

impl PdSplit {
    /// Which endpoints may prefill for the one at `decode`; none if no other may.
    fn serves(&self, endpoints: &dyn EndpointsView, decode: usize) -> Option<Vec<bool>> {
        let roles = endpoints.columns(&[self.prefills, self.decodes]);
        let [prefills, decodes] = roles.split();
        let has_roles =
            prefills.iter().zip(decodes).any(|(prefills, decodes)| (*prefills > 0.0) != (*decodes > 0.0));
        if !has_roles && !self.config.mixed {
            return None;
        }
        let mut serves: Vec<bool> = prefills.iter().map(|prefills| *prefills > 0.0).collect();
        for label in &self.labels {
            let values = endpoints.column(*label);
            let wanted = values.get(decode).copied()?;
            serves
                .iter_mut()
                .zip(values)
                .for_each(|(serves, value)| *serves &= value.total_cmp(&wanted).is_eq());
        }
        serves.iter().enumerate().any(|(position, serves)| *serves && position != decode).then_some(serves)
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_sdk::Stage;
    use sluicegate_sdk::fake::{self, Endpoints, Request};

    use super::*;

    fn split(json: &str, endpoints: &Endpoints) -> Vec<Leg> {
        let request = Request { prompt_tokens: 20_000, ..Request::default() };
        fake::configure::<PdSplit>(json).unwrap().split(&request, endpoints, 0)
    }

    fn dedicated() -> Endpoints {
        Endpoints::new(3)
            .with("role.decode", [1.0, 0.0, 0.0])
            .with("role.prefill", [0.0, 1.0, 1.0])
            .with("load.requests", [30.0, 0.0, 0.0])
    }

    #[test]
    fn a_dedicated_pool_prefills_elsewhere() {
        let legs = split("", &dedicated().with("load.prefill_tokens", [0.0, 500.0, 0.0]));
        assert_eq!(legs, [Leg::prefill(vec![2, 1])]);
        assert_eq!(legs[0].stage.number(), Stage::Prefill.number());
    }

    #[test]
    fn a_pool_without_roles_is_left_alone_unless_it_may_mix() {
        let both = Endpoints::new(2)
            .with("role.decode", [1.0; 2])
            .with("role.prefill", [1.0; 2])
            .with("load.requests", [30.0, 0.0]);
        assert!(split("", &both).is_empty());
        assert!(split(r#"{"mode": "always"}"#, &both).is_empty());
        assert_eq!(split(r#"{"mixed": true}"#, &both), [Leg::prefill(vec![1])]);
    }

    #[test]
    fn nobody_to_prefill_is_no_leg() {
        let endpoints = Endpoints::new(2).with("role.decode", [1.0; 2]).with("role.prefill", [0.0; 2]);
        assert!(split(r#"{"mode": "always"}"#, &endpoints).is_empty());
    }

    #[test]
    fn revisions_have_to_match() {
        let endpoints = dedicated().labelled("revision", ["b", "a", "b"]);
        assert_eq!(split(r#"{"match_labels": ["revision"]}"#, &endpoints), [Leg::prefill(vec![2])]);
    }

    #[test]
    fn a_mode_that_does_not_exist_is_an_error() {
        let error = fake::configure::<PdSplit>(r#"{"mode": "sometimes"}"#).err().unwrap();
        assert_eq!(
            error.to_string(),
            r#"key `mode`: expected "auto", "always", "never", "threshold", found "sometimes""#
        );
    }
}
