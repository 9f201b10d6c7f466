//! What the audit is told of plugins that come and go by themselves. What an operator asks for is noted where it is
//! asked for, and its effect here.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Member;
use crate::audit::{Audit, Deed};
use crate::types::Arm;

type Members = [(Box<str>, Arc<Member>)];

/// Notes the versions that serve or are tried now and did not before, and the plugins that serve no more.
pub(super) fn swap(audit: &Audit, before: &Members, now: &Members) {
    let (before, now) = (versions(before), versions(now));
    for ((name, in_force), digest) in &now {
        if before.get(&(name, *in_force)) != Some(digest) {
            let what = if *in_force { "plugin.in_force" } else { "plugin.on_trial" };
            audit.note(&Deed::new(what, name, "router").version(digest));
        }
    }
    for ((name, in_force), digest) in &before {
        if !now.contains_key(&(name, *in_force)) {
            let what = if *in_force { "plugin.gone" } else { "plugin.trial_ended" };
            audit.note(&Deed::new(what, name, "router").version(digest));
        }
    }
}

/// The digest by name and by whether it is in force. A plugin is a member of every chain that uses it.
fn versions(members: &Members) -> BTreeMap<(&str, bool), &str> {
    members
        .iter()
        .map(|(name, member)| ((&**name, member.plugin.arm == Arm::BASE), &*member.plugin.digest))
        .collect()
}
