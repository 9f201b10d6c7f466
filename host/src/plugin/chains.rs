//! From loaded plugins to the policy set: which plugin answers which stage of which chain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::load::{Kept, LoadError, Loaded, Services};
use super::policies::WasmPolicy;
use crate::clock::Nanos;
use crate::config::PluginConfig;
use crate::policy::{CallTimes, Chain, Health, Plugin, Slot};

/// A plugin with one configuration, ready to be put into chains.
pub(super) struct Member {
    pub(super) plugin: Arc<Plugin>,
    pub(super) config: PluginConfig,
    pub(super) weight: f32,
    pub(super) loaded: Arc<Loaded>,
    policy: Arc<WasmPolicy>,
}

impl Member {
    /// Sets up and tries out `loaded` with `config`.
    pub(super) fn new(
        services: &Services,
        kept: &Kept,
        loaded: Arc<Loaded>,
        config: PluginConfig,
    ) -> Result<Self, LoadError> {
        let (instances, manifest) = loaded.instances(services, kept, &config)?;
        let plugin = Plugin {
            name: config.name.clone(),
            version: manifest.version.into(),
            summary: manifest.summary.into(),
            digest: loaded.digest.clone(),
            source: loaded.source,
            generation: loaded.generation,
            stages: loaded.stages().to_vec(),
            on_error: config.on_error,
            on_empty: config.on_empty,
            required: config.required,
            profiles: config.profiles.clone(),
            health: Health::default(),
            times: CallTimes::default(),
        };
        let deadline = Nanos::try_from(config.deadline.as_nanos()).unwrap_or(Nanos::MAX);
        Ok(Self {
            plugin: Arc::new(plugin),
            weight: config.weight.unwrap_or(manifest.default_weight),
            config,
            loaded,
            policy: Arc::new(WasmPolicy::new(instances, deadline)),
        })
    }

    /// Whether it is still what is asked for.
    pub(super) fn is(&self, loaded: &Arc<Loaded>, config: &PluginConfig) -> bool {
        Arc::ptr_eq(&self.loaded, loaded) && self.config == *config
    }
}

/// Puts members into a chain, in this order. Of stages that only one plugin can answer the last one wins.
pub(super) fn chain(name: &str, members: &[Arc<Member>]) -> Chain {
    let mut chain = Chain { name: name.into(), ..Chain::default() };
    for member in members {
        for stage in &member.plugin.stages {
            join(&mut chain, member, stage);
        }
    }
    let columns: BTreeSet<_> = members.iter().flat_map(|member| member.policy.columns()).collect();
    chain.columns = columns.into_iter().collect();
    let controls = chain.flow.as_ref().map(|slot| Arc::clone(&slot.plugin));
    for member in members {
        let in_control = controls.as_ref().is_some_and(|plugin| Arc::ptr_eq(plugin, &member.plugin));
        if in_control {
            chain.flow_own = Some(member.slot(Arc::clone(&member.policy) as _));
        } else if member.plugin.stages.contains(&"observer") {
            chain.observers.push(member.slot(Arc::clone(&member.policy) as _));
        }
    }
    chain
}

fn join(chain: &mut Chain, member: &Member, stage: &str) {
    let policy = Arc::clone(&member.policy);
    match stage {
        "admission" => chain.admission.push(member.slot(policy as _)),
        "filter" => chain.filters.push(member.slot(policy as _)),
        "scorer" => chain.scorers.push(member.slot(policy as _)),
        "picker" => chain.picker = Some(member.slot(policy as _)),
        "disaggregation" => chain.disaggregation = Some(member.slot(policy as _)),
        "flow-control" => chain.flow = Some(member.slot(policy as _)),
        _ => {}
    }
}

impl Member {
    fn slot<P: ?Sized>(&self, policy: Arc<P>) -> Slot<P> {
        Slot { plugin: Arc::clone(&self.plugin), weight: self.weight, policy }
    }
}

/// Members by chain and plugin, so that a swap keeps the instances of all that did not change.
pub(super) type Members = BTreeMap<(Box<str>, Box<str>), Arc<Member>>;
