//! Who calls, and what is left to them.
//!
//! [`Tenants`] tells callers apart: by the hash of the key that they show, or by the word of a trusted peer. What they
//! showed is taken out of the request there, so that nothing after it can pass it on. A [`Tenant`] says what its
//! requests may be, and keeps the account of what it has used: [`Tenant::enter`] takes a request's share and gives a
//! [`Held`], which gives back on every path what was not used.
//!
//! A tenant bounds and names; who goes first is decided by policies.

mod account;
mod bucket;
mod credentials;
mod salt;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;

pub use account::{Account, Exceeded, Held, Limit, Share, Standing};

use crate::config::{Callers, Config, KeyHash, TenantConfig};

/// Why a caller is nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// No key was shown.
    #[error("no API key was sent; send one as `authorization: Bearer KEY` or `x-api-key: KEY`")]
    NoKey,
    /// Nobody has this key.
    #[error("the API key is not known here")]
    UnknownKey,
    /// Two headers show keys of two tenants, or one of nobody.
    #[error("the request shows several API keys that are not of one tenant; send one")]
    SeveralKeys,
    /// A trusted peer names somebody who is not known.
    #[error("the gateway names a tenant that is not known here")]
    UnknownTenant,
}

/// All who may call, as the configuration in force names them.
#[derive(Debug, Default)]
pub struct Tenants(ArcSwap<Roll>);

#[derive(Debug, Default)]
struct Roll {
    callers: Callers,
    all: Vec<Arc<Tenant>>,
    by_name: HashMap<Box<str>, Arc<Tenant>>,
    /// By the first bytes of a key's hash; the whole is compared in constant time.
    by_key: HashMap<u64, Vec<(KeyHash, Arc<Tenant>)>>,
    objectives: HashMap<Box<str>, i32>,
}

/// One of those who share the endpoints.
#[derive(Debug)]
pub struct Tenant {
    /// How it is configured.
    pub config: TenantConfig,
    /// What it has used; kept when the configuration changes.
    pub account: Arc<Account>,
}

impl Tenants {
    /// Those of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self(ArcSwap::from_pointee(Roll::new(config, &Roll::default())))
    }

    /// Puts those of another configuration in their place. One that stays keeps its account.
    pub fn replace(&self, config: &Config) {
        self.0.rcu(|before| Roll::new(config, before));
    }

    /// All of them, in the order of the configuration.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Tenant>> {
        self.0.load().all.clone()
    }

    /// The tenant of this name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Arc<Tenant>> {
        self.0.load().by_name.get(name).cloned()
    }

    /// The priority of what a request calls its purpose.
    #[must_use]
    pub fn objective(&self, name: &str) -> Option<i32> {
        self.0.load().objectives.get(name).copied()
    }

    /// Who sent a request with these headers; none where there are no tenants, and then everybody may call. What
    /// shows who it is, is taken out.
    ///
    /// # Errors
    /// When it is nobody.
    pub fn identify(&self, headers: &mut HeaderMap, peer: IpAddr) -> Result<Option<Arc<Tenant>>, Stranger> {
        let roll = self.0.load();
        if roll.all.is_empty() {
            return Ok(None);
        }
        let named = roll.by_word(headers, peer);
        let shown = credentials::take(headers);
        named.unwrap_or_else(|| roll.of_keys(&shown)).map(Some)
    }
}

impl Roll {
    fn new(config: &Config, before: &Self) -> Self {
        let account = |name: &str| {
            before.by_name.get(name).map_or_else(Arc::default, |tenant| Arc::clone(&tenant.account))
        };
        let all: Vec<_> = config
            .tenants
            .iter()
            .map(|tenant| Arc::new(Tenant { account: account(&tenant.name), config: tenant.clone() }))
            .collect();
        let by_name = all.iter().map(|tenant| (tenant.config.name.clone(), Arc::clone(tenant))).collect();
        let mut by_key: HashMap<_, Vec<_>> = HashMap::new();
        for tenant in &all {
            for hash in &tenant.config.key_hashes {
                by_key.entry(hash.prefix()).or_default().push((*hash, Arc::clone(tenant)));
            }
        }
        let objectives = config.objectives.iter().map(|known| (known.name.clone(), known.priority)).collect();
        Self { callers: config.callers.clone(), all, by_name, by_key, objectives }
    }

    /// The tenant that a trusted peer names.
    fn by_word(&self, headers: &mut HeaderMap, peer: IpAddr) -> Option<Result<Arc<Tenant>, Stranger>> {
        let header = self.callers.header.as_ref()?;
        // Two of them are one too many: the peer let through what its client sent.
        let single = headers.get_all(header).iter().count() == 1;
        let name = headers.remove(header)?;
        self.callers.trusted.iter().find(|network| network.contains(peer))?;
        let name = name.to_str().ok().filter(|_| single);
        let tenant = name.and_then(|name| self.by_name.get(name.trim()));
        Some(tenant.cloned().ok_or(Stranger::UnknownTenant))
    }

    fn of_keys(&self, shown: &[KeyHash]) -> Result<Arc<Tenant>, Stranger> {
        let Some((first, others)) = shown.split_first() else {
            let anonymous = self.callers.anonymous.as_ref().and_then(|name| self.by_name.get(name));
            return anonymous.cloned().ok_or(Stranger::NoKey);
        };
        let tenant = self.of_key(first);
        for other in others {
            match (self.of_key(other), tenant) {
                (Some(other), Some(tenant)) if Arc::ptr_eq(other, tenant) => {}
                (None, None) => {}
                _ => return Err(Stranger::SeveralKeys),
            }
        }
        tenant.cloned().ok_or(Stranger::UnknownKey)
    }

    fn of_key(&self, shown: &KeyHash) -> Option<&Arc<Tenant>> {
        let near = self.by_key.get(&shown.prefix())?;
        near.iter().find(|(hash, _)| hash == shown).map(|(_, tenant)| tenant)
    }
}

impl Tenant {
    /// The priority of a request that asks for this one.
    #[must_use]
    pub fn priority(&self, asked: Option<i32>) -> i32 {
        asked.unwrap_or(self.config.priority).min(self.config.max_priority)
    }

    /// Its weight for each of its flows. They share what the tenant has: one that calls itself many gets no more.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "flows are counted in thousands")]
    pub fn weight(&self) -> f32 {
        self.config.weight / self.account.flows().max(1) as f32
    }

    /// Whether it may use a model that it calls `asked` and that is `model` in the pool.
    #[must_use]
    pub fn may_use(&self, asked: &str, model: &str) -> bool {
        let models = &self.config.models;
        models.is_empty() || models.iter().any(|known| **known == *asked || **known == *model)
    }

    /// Whether it may use a path that is no inference API.
    #[must_use]
    pub fn may_call(&self, path: &str) -> bool {
        self.config.paths.iter().any(|known| match known.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning) && is_plain(path),
            None => **known == *path,
        })
    }

    /// Its own name for a session: tenants that call theirs alike do not share it.
    #[must_use]
    pub fn session(&self, session: &str) -> Box<str> {
        format!("{}/{session}", self.config.name).into()
    }

    /// What keeps its prompts' cache apart, where it is isolated. The client's own salt goes into it.
    #[must_use]
    pub fn salt(&self, client: Option<&str>) -> Option<Box<str>> {
        self.config.isolation.then(|| salt::salt(&self.config.name, client))
    }

    /// Takes what a request is expected to use, if that is left at `now`.
    ///
    /// # Errors
    /// Which limit it would exceed, and when it would not.
    pub fn enter(&self, share: Share, now: crate::clock::Nanos) -> Result<Held, Exceeded> {
        Account::enter(&self.account, &self.config, share, now)
    }
}

/// Whether a path can be taken in one way only: an engine that resolves `..` or `%2e` would find another.
fn is_plain(path: &str) -> bool {
    let odd = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(['%', '\\', ';']);
    !path.trim_start_matches('/').split('/').any(odd) && !path.starts_with("//")
}
