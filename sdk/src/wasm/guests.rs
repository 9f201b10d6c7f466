//! Each stage's generated trait, in terms of the traits of this crate.

use super::bindings::admission::exports::sluicegate::policy::admission;
use super::bindings::disaggregation::exports::sluicegate::policy::disaggregation;
use super::bindings::filter::exports::sluicegate::policy::filter;
use super::bindings::flow_control::exports::sluicegate::policy::flow_control;
use super::bindings::handoff::exports::sluicegate::policy::handoff;
use super::bindings::observer::exports::sluicegate::policy::observer;
use super::bindings::picker::exports::sluicegate::policy::picker;
use super::bindings::policy::exports::sluicegate::policy::plugin;
use super::bindings::scorer::exports::sluicegate::policy::scorer;
use super::imports::view::{Endpoints, Events, Flows, Request};
use super::instance::{Exported, call, put};
use super::panics;
use crate::{
    Admission, Columns, Disaggregation, Filter, FlowControl, Handoff, Manifest, Observer, Picker, Policy,
    Scorer, Verdict,
};

impl<E: Exported> plugin::Guest for E {
    fn describe() -> plugin::Manifest {
        panics::install();
        let Manifest { name, version, summary, default_weight, config_schema } = E::Policy::manifest();
        plugin::Manifest { name, version, summary, default_weight, config_schema }
    }

    fn configure(config: String) -> Result<(), String> {
        panics::install();
        let policy = E::Policy::configure(&config, &mut Columns::new()).map_err(|error| error.to_string())?;
        put::<E>(policy);
        Ok(())
    }
}

impl<E: Exported<Policy: Admission>> admission::Guest for E {
    fn admit(request: &Request, endpoints: &Endpoints) -> admission::Verdict {
        match call::<E, _>(|policy| policy.admit(request, endpoints)) {
            Verdict::Accept => admission::Verdict::Accept,
            Verdict::Reject(no) => admission::Verdict::Reject(admission::Rejection {
                status: no.status,
                reason: no.reason,
                retry_after_ms: no.retry_after_ms,
                extra: no.extra,
            }),
        }
    }
}

impl<E: Exported<Policy: Filter>> filter::Guest for E {
    fn keep(request: &Request, endpoints: &Endpoints) -> Vec<u32> {
        call::<E, _>(|policy| policy.keep(request, endpoints))
    }
}

impl<E: Exported<Policy: Scorer>> scorer::Guest for E {
    fn score(request: &Request, endpoints: &Endpoints) -> Vec<f32> {
        call::<E, _>(|policy| policy.score(request, endpoints))
    }
}

impl<E: Exported<Policy: Picker>> picker::Guest for E {
    fn pick(request: &Request, endpoints: &Endpoints, scores: Vec<f32>, count: u32) -> Vec<u32> {
        call::<E, _>(|policy| policy.pick(request, endpoints, &scores, count as usize))
    }
}

impl<E: Exported<Policy: Disaggregation>> disaggregation::Guest for E {
    fn split(request: &Request, endpoints: &Endpoints, decode: u32) -> Vec<disaggregation::Leg> {
        let legs = call::<E, _>(|policy| policy.split(request, endpoints, decode as usize));
        legs.into_iter()
            .map(|leg| disaggregation::Leg {
                stage: leg.stage.number(),
                candidates: leg.candidates,
                extra: leg.extra,
            })
            .collect()
    }
}

impl<E: Exported<Policy: FlowControl>> flow_control::Guest for E {
    fn place(request: &Request, endpoints: &Endpoints) -> flow_control::Placement {
        let place = call::<E, _>(|policy| policy.place(request, endpoints));
        flow_control::Placement {
            flow: place.flow,
            band: place.band,
            weight: place.weight,
            cost: place.cost,
            rank: place.rank,
            ceiling: place.ceiling,
            ttl_ms: place.ttl_ms,
            extra: place.extra,
        }
    }

    fn select(flows: &Flows, endpoints: &Endpoints, count: u32) -> Vec<u32> {
        call::<E, _>(|policy| policy.select(flows, endpoints, count as usize))
    }

    fn saturation(endpoints: &Endpoints) -> f32 {
        call::<E, _>(|policy| policy.saturation(endpoints))
    }
}

impl<E: Exported<Policy: Observer>> observer::Guest for E {
    fn observe(events: &Events) {
        call::<E, _>(|policy| policy.observe(events));
    }
}

impl<E: Exported<Policy: Handoff>> handoff::Guest for E {
    fn save() -> Vec<u8> {
        call::<E, _>(|policy| policy.save())
    }

    fn restore(state: Vec<u8>) -> Result<(), String> {
        call::<E, _>(|policy| policy.restore(&state)).map_err(|error| error.to_string())
    }
}
