//! From the versions in force and on trial to the policy set that requests are served with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh64::xxh64;

use super::super::chains::{Asked, Member, chain};
use super::entry::{Candidate, Entry};
use super::rules::Rules;
use crate::config::TrialMode as Mode;
use crate::policy::{Chain, PolicySet, Share, Trial};
use crate::types::Arm;

/// A policy set, and who is in it.
pub(super) struct Published {
    pub(super) set: PolicySet,
    /// Every member, with the name of its plugin.
    pub(super) members: Vec<(Box<str>, Arc<Member>)>,
    /// What else tells the set from another: how much traffic the candidate is given.
    pub(super) likeness: String,
}

/// Puts together what serves. `generation` is the new set's.
pub(super) fn publish(rules: &Rules, entries: &BTreeMap<Box<str>, Entry>, generation: u64) -> Published {
    let on = |name: &str| entries.get(name).filter(|entry| !entry.record.off && rules.allows(name));
    let trial = given_traffic(entries, on);
    let mut found = Found::default();
    let mut chains = BTreeMap::new();
    let mut tried_chains = BTreeMap::new();
    for (chain_name, names) in rules.chains(entries.keys().map(|name| &**name)) {
        let serving = |name: &&str| on(name)?.in_force.as_ref()?.members.get(chain_name);
        let base: Vec<_> = names.iter().filter_map(|name| serving(name).map(Asked::All)).collect();
        found.add(&base);
        let shadows: Vec<_> = names
            .iter()
            .filter(|name| trial.is_none_or(|(tried, _)| tried != **name))
            .filter_map(|name| on(name)?.candidate.as_ref()?.version.members.get(chain_name).map(Arc::clone))
            .collect();
        for member in &shadows {
            found.member(member);
        }
        if let Some((tried, candidate)) = trial
            && let Some(member) = candidate.version.members.get(chain_name)
        {
            let whole = matches!(candidate.trial, Mode::Pools(_));
            let asked = names.iter().flat_map(|name| match serving(name) {
                stays if *name != tried => [stays.map(Asked::All), None],
                _ if whole => [Some(Asked::All(member)), None],
                // Whoever controls the flow of a pool controls all of it.
                before => [before.map(Asked::Flow), Some(Asked::AllButFlow(member))],
            });
            let asked: Vec<_> = asked.flatten().collect();
            found.add(&asked);
            tried_chains.insert(chain_name.into(), Arc::new(chain(chain_name, &asked, &[])));
        }
        chains.insert(chain_name.into(), Arc::new(chain(chain_name, &base, &shadows)));
    }
    let trial = trial.map(|(name, candidate)| described(name, candidate, tried_chains));
    let likeness = format!("{:?}", trial.as_ref().map(|trial| (trial.arm, &trial.share)));
    Published { set: found.set(generation, chains, trial), members: found.members, likeness }
}

/// The candidate that is given traffic: the one that asks for it longest. What a pool's figures show under
/// two at once could be blamed on neither.
fn given_traffic<'a>(
    entries: &'a BTreeMap<Box<str>, Entry>,
    on: impl Fn(&str) -> Option<&'a Entry>,
) -> Option<(&'a str, &'a Candidate)> {
    let candidates = entries.keys().filter_map(|name| Some((&**name, on(name)?.candidate.as_ref()?)));
    candidates
        .filter(|(_, candidate)| candidate.trial != Mode::Shadow)
        .min_by_key(|(_, candidate)| candidate.version.since)
}

fn described(name: &str, candidate: &Candidate, chains: BTreeMap<Box<str>, Arc<Chain>>) -> Trial {
    let share = match &candidate.trial {
        Mode::Shadow => Share::Sessions(0.0),
        Mode::Canary(percent) => Share::Sessions(*percent),
        Mode::Endpoints(count) => Share::Endpoints(*count),
        Mode::Pools(names) => Share::Pools(names.iter().cloned().collect()),
    };
    let version = &candidate.version;
    Trial {
        plugin: name.into(),
        arm: Arm(version.loaded.generation),
        share,
        salt: xxh64(version.digest().as_bytes(), 0),
        chains,
    }
}

#[derive(Default)]
struct Found {
    members: Vec<(Box<str>, Arc<Member>)>,
}

impl Found {
    fn add(&mut self, asked: &[Asked<'_>]) {
        for asked in asked {
            self.member(asked.member());
        }
    }

    fn member(&mut self, member: &Arc<Member>) {
        if !self.members.iter().any(|(_, known)| Arc::ptr_eq(known, member)) {
            self.members.push((member.plugin.name.clone(), Arc::clone(member)));
        }
    }

    fn set(
        &self,
        generation: u64,
        chains: BTreeMap<Box<str>, Arc<Chain>>,
        trial: Option<Trial>,
    ) -> PolicySet {
        let members = || self.members.iter().map(|(_, member)| member);
        let headers: BTreeSet<_> = members().flat_map(|member| member.config.grant.headers.clone()).collect();
        PolicySet {
            generation,
            chains,
            // A candidate that fails is no reason for the process not to be ready.
            plugins: members()
                .filter(|member| member.plugin.arm == Arm::BASE)
                .map(|member| Arc::clone(&member.plugin))
                .collect(),
            trial,
            granted_headers: headers,
        }
    }
}
