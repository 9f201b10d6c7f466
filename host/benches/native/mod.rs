//! The default plugins compiled into this process, behind the ports.
//!
//! The SDK's views are read straight from the host's, so what differs from the Wasm chain is the boundary alone. Their clock
//! is the one that tests set, for each thread: only the instance that controls flow, where time counts, sets it.

#![allow(dead_code, reason = "each program that includes this uses a part of it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fairness::Fairness;
use pd_split::PdSplit;
use prefix_affinity::PrefixAffinity;
use sluicegate::clock::MILLI;
use sluicegate::config::PluginConfig;
use sluicegate::policy::{
    self, Builtin, Call, CallError, CallTimes, Chain, ColumnId, EndpointView, Event, Flows, Health, LegStage,
    OnEmpty, OnError, OwnFactory as _, Plugin, Registry, Request, Slot, Source,
};
use sluicegate::types::{self, Arm, Profile};
use sluicegate_sdk as sdk;
use sluicegate_sdk::{Disaggregation as _, FlowControl as _, Observer as _, Policy, Scorer as _};

/// The SDK's handles of columns, and the host's.
type Handles = Arc<HashMap<u32, ColumnId>>;

/// The instance that controls flow.
pub(crate) fn own(registry: &Registry) -> Box<dyn policy::Own> {
    Owns(handles(registry)).own().unwrap()
}

/// All of them, with every column that the host has.
pub(crate) fn all(registry: &Registry) -> Chain {
    let columns = Builtin::ALL.iter().map(|column| registry.resolve(column.name()).unwrap());
    let owns = Arc::new(Owns(handles(registry)));
    Chain { flow_own: Some(slot(owns)), ..chain(registry, columns.collect()) }
}

fn handles(registry: &Registry) -> Handles {
    let all = Builtin::ALL.iter().map(|column| {
        let id = registry.resolve(column.name()).unwrap();
        (sdk::fake::columns().resolve(column.name()).unwrap().id(), id)
    });
    Arc::new(all.collect())
}

pub(crate) fn chain(registry: &Registry, columns: Arc<[ColumnId]>) -> Chain {
    let handles = handles(registry);
    Chain {
        name: "default".into(),
        columns,
        scorers: vec![slot(Native::<PrefixAffinity>::new(&handles))],
        disaggregation: Some(slot(Native::<PdSplit>::new(&handles))),
        flow: Some(slot(Native::<Fairness>::new(&handles))),
        ..Chain::default()
    }
}

struct Native<P> {
    policy: P,
    handles: Handles,
}

impl<P: Policy> Native<P> {
    fn new(handles: &Handles) -> Arc<Self> {
        Arc::new(Self { policy: sdk::fake::configure("").unwrap(), handles: Arc::clone(handles) })
    }

    fn ask<R>(&self, call: Call<'_>, ask: impl FnOnce(&P, &RequestView<'_>, &EndpointsView<'_>) -> R) -> R {
        let request = RequestView(call.request);
        let endpoints = EndpointsView { view: &**call.endpoints, handles: &self.handles };
        let start = Instant::now();
        let answer = ask(&self.policy, &request, &endpoints);
        call.budget.spend(u64::try_from(start.elapsed().as_nanos()).unwrap());
        answer
    }
}

fn slot<P: ?Sized, N: Port<P>>(native: Arc<N>) -> Slot<P> {
    let plugin = Plugin {
        name: "native".into(),
        version: "".into(),
        summary: "".into(),
        digest: "".into(),
        source: Source::Native,
        generation: 0,
        arm: Arm::BASE,
        stages: Vec::new(),
        on_error: OnError::Default,
        on_empty: OnEmpty::Reject,
        required: false,
        profiles: vec![Profile::Decode, Profile::Prefill],
        config: Arc::new(PluginConfig::named("native")),
        health: Health::default(),
        times: CallTimes::default(),
    };
    Slot { plugin: Arc::new(plugin), weight: 1.0, policy: native.port() }
}

/// A native policy as the port that it serves.
trait Port<P: ?Sized> {
    fn port(self: Arc<Self>) -> Arc<P>;
}

impl Port<dyn policy::Scorer> for Native<PrefixAffinity> {
    fn port(self: Arc<Self>) -> Arc<dyn policy::Scorer> {
        self
    }
}

impl Port<dyn policy::Disaggregation> for Native<PdSplit> {
    fn port(self: Arc<Self>) -> Arc<dyn policy::Disaggregation> {
        self
    }
}

impl Port<dyn policy::FlowControl> for Native<Fairness> {
    fn port(self: Arc<Self>) -> Arc<dyn policy::FlowControl> {
        self
    }
}

impl policy::Scorer for Native<PrefixAffinity> {
    fn score(&self, call: Call<'_>) -> Result<Vec<f32>, CallError> {
        Ok(self.ask(call, |policy, request, endpoints| policy.score(request, endpoints)))
    }
}

impl policy::Disaggregation for Native<PdSplit> {
    fn split(&self, call: Call<'_>, decode: u32) -> Result<Vec<policy::Leg>, CallError> {
        let decode = usize::try_from(decode).unwrap();
        let legs = self.ask(call, |policy, request, endpoints| policy.split(request, endpoints, decode));
        let leg = |leg: sdk::Leg| policy::Leg { stage: LegStage::Prefill, candidates: leg.candidates };
        Ok(legs.into_iter().map(leg).collect())
    }
}

impl policy::FlowControl for Native<Fairness> {
    fn place(&self, call: Call<'_>) -> Result<policy::Placement, CallError> {
        let placement = self.ask(call, |policy, request, endpoints| policy.place(request, endpoints));
        Ok(policy::Placement {
            flow: placement.flow.into(),
            band: placement.band,
            weight: placement.weight,
            cost: placement.cost,
            rank: placement.rank,
            ceiling: placement.ceiling,
            ttl_ms: placement.ttl_ms,
            kv_tokens: None,
        })
    }
}

/// Makes instances that control flow.
struct Owns(Handles);

impl policy::OwnFactory for Owns {
    fn own(&self) -> Result<Box<dyn policy::Own>, CallError> {
        let policy = sdk::fake::configure("").unwrap();
        Ok(Box::new(NativeOwn { policy, handles: Arc::clone(&self.0), made: Instant::now() }))
    }
}

impl Port<dyn policy::OwnFactory> for Owns {
    fn port(self: Arc<Self>) -> Arc<dyn policy::OwnFactory> {
        self
    }
}

struct NativeOwn {
    policy: Fairness,
    handles: Handles,
    made: Instant,
}

impl NativeOwn {
    fn set_clock(&self) {
        sdk::fake::host().set_now_ms(u64::try_from(self.made.elapsed().as_millis()).unwrap());
    }
}

impl policy::Own for NativeOwn {
    fn select(
        &mut self,
        flows: &Arc<Flows>,
        endpoints: &Arc<dyn EndpointView>,
        count: u32,
    ) -> Result<Vec<u32>, CallError> {
        self.set_clock();
        let flows = FlowsView { flows, handles: &self.handles };
        let endpoints = EndpointsView { view: &**endpoints, handles: &self.handles };
        Ok(self.policy.select(&flows, &endpoints, usize::try_from(count).unwrap()))
    }

    fn saturation(&mut self, endpoints: &Arc<dyn EndpointView>) -> Result<f32, CallError> {
        Ok(self.policy.saturation(&EndpointsView { view: &**endpoints, handles: &self.handles }))
    }

    fn observe(&mut self, events: &Arc<[Event]>) -> Result<(), CallError> {
        self.set_clock();
        self.policy.observe(&EventsView { events, handles: &self.handles });
        Ok(())
    }

    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError> {
        Ok(None)
    }

    fn restore(&mut self, _: &[u8]) -> Result<(), CallError> {
        Ok(())
    }
}

struct EventsView<'a> {
    events: &'a [Event],
    handles: &'a Handles,
}

impl sdk::EventsView for EventsView<'_> {
    fn len(&self) -> usize {
        self.events.len()
    }

    fn column(&self, column: sdk::Column) -> Vec<f32> {
        let id = usize::try_from(self.handles[&column.id()].0).unwrap();
        let events = self.events.iter();
        events.map(|event| event.value(Builtin::ALL[id]).unwrap_or(column.missing())).collect()
    }

    fn request(&self, position: usize) -> String {
        self.events[position].request.to_string()
    }
}

struct FlowsView<'a> {
    flows: &'a Flows,
    handles: &'a Handles,
}

impl sdk::FlowsView for FlowsView<'_> {
    fn len(&self) -> usize {
        self.flows.rows.len()
    }

    fn ids(&self) -> Vec<u32> {
        self.flows.rows.iter().map(|row| row.id).collect()
    }

    fn name(&self, position: usize) -> String {
        self.flows.rows[position].name.to_string()
    }

    fn column(&self, column: sdk::Column) -> Vec<f32> {
        let id = usize::try_from(self.handles[&column.id()].0).unwrap();
        let rows = self.flows.rows.iter();
        rows.map(|row| row.value(Builtin::ALL[id]).unwrap_or(column.missing())).collect()
    }
}

struct EndpointsView<'a> {
    view: &'a dyn EndpointView,
    handles: &'a Handles,
}

impl sdk::EndpointsView for EndpointsView<'_> {
    fn len(&self) -> usize {
        self.view.len()
    }

    fn profile(&self) -> sdk::Profile {
        sdk::Profile::from_name(self.view.profile().as_str())
    }

    fn ids(&self) -> Vec<u32> {
        self.view.ids()
    }

    fn keys(&self) -> Vec<u64> {
        self.view.keys()
    }

    fn column(&self, column: sdk::Column) -> Vec<f32> {
        self.view.column(self.handles[&column.id()], column.missing()).unwrap()
    }

    fn columns(&self, columns: &[sdk::Column]) -> sdk::Table {
        let wanted: Vec<_> =
            columns.iter().map(|column| (self.handles[&column.id()], column.missing())).collect();
        sdk::Table::new(self.view.len(), self.view.columns(&wanted))
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.view.label(position, key)
    }
}

struct RequestView<'a>(&'a Request);

impl sdk::RequestView for RequestView<'_> {
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    fn api(&self) -> sdk::Api {
        match self.0.api {
            types::Api::Chat => sdk::Api::Chat,
            _ => sdk::Api::Other,
        }
    }

    fn path(&self) -> String {
        self.0.path.to_string()
    }

    fn model(&self) -> String {
        self.0.model.to_string()
    }

    fn adapter(&self) -> Option<String> {
        self.0.adapter.as_deref().map(str::to_owned)
    }

    fn tenant(&self) -> Option<String> {
        self.0.tenant.as_deref().map(str::to_owned)
    }

    fn flow(&self) -> String {
        self.0.flow.to_string()
    }

    fn priority(&self) -> i32 {
        self.0.priority
    }

    fn session(&self) -> Option<String> {
        self.0.session.as_deref().map(str::to_owned)
    }

    fn turn(&self) -> u32 {
        self.0.turn
    }

    fn prompt_tokens(&self) -> u32 {
        self.0.prompt_tokens
    }

    fn prompt_tokens_exact(&self) -> bool {
        self.0.prompt_tokens_exact
    }

    fn prefix_keys(&self, max: u32) -> Vec<u64> {
        self.0.prefix_hashes().iter().take(usize::try_from(max).unwrap()).copied().collect()
    }

    fn max_output_tokens(&self) -> Option<u32> {
        self.0.max_output_tokens
    }

    fn streaming(&self) -> bool {
        self.0.streaming
    }

    fn ttft_target(&self) -> Option<f32> {
        self.0.ttft_target_ms
    }

    fn tpot_target(&self) -> Option<f32> {
        self.0.tpot_target_ms
    }

    fn ttl_ms(&self) -> Option<u32> {
        self.0.ttl_ms
    }

    fn age_ms(&self) -> u32 {
        u32::try_from(self.0.arrived / MILLI).unwrap_or(0)
    }

    fn header(&self, _: &str) -> Option<String> {
        None
    }

    fn body(&self) -> Option<Vec<u8>> {
        None
    }
}
