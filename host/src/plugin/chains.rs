//! From loaded plugins to the policy set: which plugin answers which stage of which chain.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use super::load::{Kept, LoadError, Loaded, Services};
use super::policies::WasmPolicy;
use crate::clock::nanos;
use crate::config::PluginConfig;
use crate::policy::{CallTimes, Chain, Health, Plugin, Shadow, Slot, Stages};
use crate::types::Arm;

/// A plugin with one configuration, ready to be put into chains.
pub(super) struct Member {
    pub(super) plugin: Arc<Plugin>,
    pub(super) config: PluginConfig,
    pub(super) weight: f32,
    policy: Arc<WasmPolicy>,
    /// It beside a chain, the same one in every set: what it counted and its own instances stay over swaps of others.
    shadow: OnceLock<Arc<Shadow>>,
}

impl Member {
    /// Sets up and tries out `loaded` with `config`.
    pub(super) fn new(
        services: &Services,
        kept: &Kept,
        loaded: Arc<Loaded>,
        config: PluginConfig,
        arm: Arm,
    ) -> Result<Self, LoadError> {
        let (instances, manifest) = loaded.instances(services, kept, &config)?;
        let plugin = Plugin {
            name: config.name.clone(),
            version: manifest.version.into(),
            summary: manifest.summary.into(),
            digest: loaded.digest.clone(),
            source: loaded.source,
            generation: loaded.generation,
            arm,
            stages: loaded.stages().to_vec(),
            on_error: config.on_error,
            on_empty: config.on_empty,
            required: config.required,
            profiles: config.profiles.clone(),
            config: Arc::new(config.clone()),
            health: Health::default(),
            times: CallTimes::default(),
        };
        let deadline = nanos(config.deadline);
        Ok(Self {
            plugin: Arc::new(plugin),
            weight: config.weight.unwrap_or(manifest.default_weight),
            config,
            policy: Arc::new(WasmPolicy::new(instances, deadline)),
            shadow: OnceLock::new(),
        })
    }
}

/// Which of a member's stages are asked in a chain.
#[derive(Clone, Copy)]
pub(super) enum Asked<'a> {
    /// Whatever it exports.
    All(&'a Arc<Member>),
    /// Flow control alone.
    Flow(&'a Arc<Member>),
    /// All but flow control.
    AllButFlow(&'a Arc<Member>),
}

impl<'a> Asked<'a> {
    pub(super) fn member(self) -> &'a Arc<Member> {
        match self {
            Self::All(member) | Self::Flow(member) | Self::AllButFlow(member) => member,
        }
    }

    fn stages(self) -> impl Iterator<Item = &'static str> {
        let asked = move |stage: &&str| match self {
            Self::All(_) => true,
            Self::Flow(_) => *stage == "flow-control",
            Self::AllButFlow(_) => *stage != "flow-control",
        };
        self.member().plugin.stages.iter().copied().filter(asked)
    }
}

/// Puts members into a chain, in this order. Of stages that only one plugin can answer the last one wins.
pub(super) fn chain(name: &str, asked: &[Asked<'_>], shadows: &[Arc<Member>]) -> Chain {
    let mut chain = Chain { name: name.into(), ..Chain::default() };
    for asked in asked {
        for stage in asked.stages() {
            join(&mut chain, asked.member(), stage);
        }
    }
    let members = || asked.iter().map(|asked| asked.member());
    let columns: BTreeSet<_> = members().chain(shadows).flat_map(|member| member.policy.columns()).collect();
    chain.columns = columns.into_iter().collect();
    chain.shadows = shadows.iter().map(|member| member.shadow()).collect();
    let controls = chain.flow.as_ref().map(|slot| Arc::clone(&slot.plugin));
    for asked in asked {
        let member = asked.member();
        let in_control = controls.as_ref().is_some_and(|plugin| Arc::ptr_eq(plugin, &member.plugin));
        if in_control {
            chain.flow_own = Some(member.slot(Arc::clone(&member.policy) as _));
        } else if asked.stages().any(|stage| stage == "observer") {
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

    fn shadow(&self) -> Arc<Shadow> {
        let shadow = || Shadow {
            plugin: Arc::clone(&self.plugin),
            weight: self.weight,
            stages: self.stages(),
            stats: Arc::default(),
        };
        Arc::clone(self.shadow.get_or_init(|| Arc::new(shadow())))
    }

    fn stages(&self) -> Stages {
        let exports = |stage: &str| self.plugin.stages.contains(&stage);
        macro_rules! of {
            ($stage:literal) => {
                exports($stage).then(|| Arc::clone(&self.policy) as _)
            };
        }
        Stages {
            admission: of!("admission"),
            filter: of!("filter"),
            scorer: of!("scorer"),
            picker: of!("picker"),
            disaggregation: of!("disaggregation"),
            flow: of!("flow-control"),
            own: of!("flow-control").or_else(|| of!("observer")),
        }
    }
}
