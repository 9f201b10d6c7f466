//! From columns to legs.

use sluicegate_sdk::config::Settings as _;
use sluicegate_sdk::{
    Column, Columns, Disaggregation, EndpointsView, Error, Leg, Manifest, Policy, RequestView, UnknownColumn,
    metrics,
};

use crate::cost::Pool;
use crate::{Config, Mode};

/// The policy.
pub struct PdSplit {
    config: Config,
    prefills: Column,
    cached: Column,
    ahead: Column,
    rate: Column,
    decoding: Column,
    answer: Column,
    fixed: Column,
    tpot: Column,
    least_tpot: Column,
    transfer: Column,
    transfer_rate: Column,
    labels: Vec<Column>,
    places: Vec<Column>,
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
        let mut label = |key: &String| columns.resolve(&format!("label:{key}")).map(|column| column.or(-1.0));
        let labels = config.match_labels.iter().map(&mut label).collect::<Result<_, UnknownColumn>>()?;
        let places = config.near_labels.iter().map(&mut label).collect::<Result<_, UnknownColumn>>()?;
        let mut column = |name: &str| columns.resolve(name).map(|column| column.or(0.0));
        Ok(Self {
            prefills: column("role.prefill")?,
            cached: column("prefix.tokens")?,
            ahead: column("load.prefill_tokens")?,
            rate: column("rate.prefill_tokens_per_s")?,
            decoding: column("load.decoding")?,
            answer: column("latency.answer_ms")?,
            fixed: column("latency.prefill_ms")?,
            tpot: column("latency.tpot_ms")?,
            least_tpot: column("latency.least_tpot_ms")?,
            transfer: column("latency.transfer_ms")?,
            transfer_rate: column("rate.transfer_tokens_per_s")?,
            labels,
            places,
            config,
        })
    }
}

impl Disaggregation for PdSplit {
    fn split(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView, decode: usize) -> Vec<Leg> {
        if self.config.mode == Mode::Never {
            return Vec::new();
        }
        let Some(serves) = self.serves(endpoints, decode) else {
            decided("nobody");
            return Vec::new();
        };
        let at_decode = |column: Column| endpoints.column(column).get(decode).copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "prompts are far shorter than 2^24 tokens")]
        let mut pool = Pool {
            prompt: request.prompt_tokens() as f32,
            target: request.ttft_target().unwrap_or(0.0),
            cached: endpoints.column(self.cached),
            ahead: endpoints.column(self.ahead),
            rate: endpoints.column(self.rate),
            streams: endpoints.column(self.decoding),
            answer: endpoints.column(self.answer),
            fixed: endpoints.column(self.fixed),
            tpot: endpoints.column(self.tpot),
            least_tpot: endpoints.column(self.least_tpot),
            serves,
            far: self.far(endpoints, decode),
            transfer: at_decode(self.transfer),
            transfer_rate: at_decode(self.transfer_rate),
        };
        pool.leave_out_own(decode);
        let candidates = pool.split(decode, &self.config);
        if candidates.is_empty() {
            decided(if pool.is_short(decode, &self.config) { "short" } else { "faster_here" });
            return Vec::new();
        }
        decided("elsewhere");
        vec![Leg::prefill(candidates)]
    }
}

impl PdSplit {
    /// Which endpoints may prefill for the one at `decode`; none if no other may. It is asked only where engines
    /// are set up to hand over caches.
    fn serves(&self, endpoints: &dyn EndpointsView, decode: usize) -> Option<Vec<bool>> {
        let prefills = endpoints.column(self.prefills);
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

    /// How many of the labels that say where an endpoint stands differ from the decode endpoint's.
    fn far(&self, endpoints: &dyn EndpointsView, decode: usize) -> Vec<f32> {
        let mut far = Vec::new();
        for place in &self.places {
            let values = endpoints.column(*place);
            let Some(here) = values.get(decode).copied() else { continue };
            far.resize(values.len(), 0.0);
            for (far, value) in far.iter_mut().zip(values) {
                *far += f32::from(u8::from(!value.total_cmp(&here).is_eq()));
            }
        }
        far
    }
}

/// Counts a decision by its reason.
fn decided(reason: &str) {
    metrics::count("pd_split_decisions", &[("reason", reason)], 1);
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
            .with("load.decoding", [30.0, 0.0, 0.0])
    }

    #[test]
    fn a_dedicated_pool_prefills_elsewhere() {
        let legs = split("", &dedicated().with("load.prefill_tokens", [0.0, 500.0, 0.0]));
        assert_eq!(legs, [Leg::prefill(vec![2, 1])]);
        assert_eq!(legs[0].stage.number(), Stage::Prefill.number());
    }

    #[test]
    fn endpoints_that_do_both_prefill_for_each_other() {
        let both = Endpoints::new(2)
            .with("role.decode", [1.0; 2])
            .with("role.prefill", [1.0; 2])
            .with("load.decoding", [30.0, 0.0]);
        assert_eq!(split("", &both), [Leg::prefill(vec![1])]);
        assert!(split("", &both.with("load.decoding", [0.0, 0.0])).is_empty());
    }

    #[test]
    fn the_request_itself_does_not_stand_before_itself() {
        let alone = dedicated()
            .with("load.decoding", [0.0, 0.0, 0.0])
            .with("load.prefill_tokens", [20_000.0, 0.0, 0.0]);
        assert!(split("", &alone).is_empty());
        assert_eq!(
            split("", &alone.with("load.prefill_tokens", [40_000.0, 0.0, 0.0])),
            [Leg::prefill(vec![1, 2])]
        );
    }

    #[test]
    fn the_place_decides_between_two() {
        let endpoints = dedicated().labelled("zone", ["a", "b", "a"]);
        assert_eq!(split(r#"{"near_labels": ["zone"]}"#, &endpoints), [Leg::prefill(vec![2, 1])]);
    }

    #[test]
    fn versions_never_mix() {
        let endpoints = dedicated().labelled("version", ["2", "1", "1"]);
        assert!(split(r#"{"mode": "always"}"#, &endpoints).is_empty());
        assert_eq!(split(r#"{"match_labels": []}"#, &endpoints), [Leg::prefill(vec![1, 2])]);
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
