//! The endpoints of one pool, and the models that they serve together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{Endpoint, EndpointSpec, Report, Status};
use crate::clock::Nanos;
use crate::types::Engine;

/// What is configured of a pool.
#[derive(Debug, Clone, Default)]
pub struct PoolSpec {
    /// The pool's name.
    pub name: Box<str>,
    /// The chain whose policies serve it.
    pub chain: Box<str>,
    /// Models that it serves; none leaves it to what the endpoints list.
    pub models: Vec<Box<str>>,
    /// Other names of models: alias, model.
    pub aliases: Vec<(Box<str>, Box<str>)>,
    /// The kind of its engines; none finds out.
    pub engine: Option<Engine>,
    /// Its endpoints, of which no two have the same name.
    pub endpoints: Vec<EndpointSpec>,
}

/// What [`Pool::update`] did.
#[derive(Debug, Default)]
pub struct Changes {
    /// Endpoints that are new.
    pub added: Vec<Arc<Endpoint>>,
    /// Endpoints that are gone. What runs on them goes on.
    pub removed: Vec<Arc<Endpoint>>,
}

/// Endpoints that serve the same models under the same chain.
#[derive(Debug)]
pub struct Pool {
    /// The pool's name.
    pub name: Box<str>,
    /// The chain whose policies serve it.
    pub chain: Box<str>,
    /// The kind of its engines; none finds out.
    pub engine: Option<Engine>,
    configured: Arc<[Box<str>]>,
    aliases: HashMap<Box<str>, Box<str>>,
    endpoints: ArcSwap<Vec<Arc<Endpoint>>>,
    /// The union of what the endpoints list, sorted.
    listed: ArcSwap<Vec<Box<str>>>,
    /// Held while `endpoints` or `listed` is replaced.
    changing: Mutex<()>,
}

impl Pool {
    /// A pool of new endpoints.
    #[must_use]
    pub fn new(spec: PoolSpec) -> Self {
        Self::taking_over(&[], spec)
    }

    /// This pool under another configuration. Endpoints whose names stay keep their handles, their
    /// load and what was learned of them.
    #[must_use]
    pub fn reconfigured(&self, spec: PoolSpec) -> Self {
        Self::taking_over(&self.endpoints.load(), spec)
    }

    fn taking_over(old: &[Arc<Endpoint>], spec: PoolSpec) -> Self {
        let PoolSpec { name, chain, mut models, aliases, engine, endpoints } = spec;
        models.sort_unstable();
        models.dedup();
        let (endpoints, _) = merge(old, endpoints);
        let listed = ArcSwap::from_pointee(union(&endpoints));
        Self {
            name,
            chain,
            engine,
            configured: models.into(),
            aliases: aliases.into_iter().collect(),
            endpoints: ArcSwap::from_pointee(endpoints),
            listed,
            changing: Mutex::new(()),
        }
    }

    /// The endpoints, in the order in which they were named.
    #[must_use]
    pub fn endpoints(&self) -> Arc<Vec<Arc<Endpoint>>> {
        self.endpoints.load_full()
    }

    /// The endpoint of this name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.endpoints.load().iter().find(|endpoint| &*endpoint.name == name).cloned()
    }

    /// Puts these endpoints in the place of the present ones; see [`Self::reconfigured`].
    pub fn update(&self, specs: Vec<EndpointSpec>) -> Changes {
        let _one_at_a_time = self.changing.lock();
        let (endpoints, changes) = merge(&self.endpoints.load(), specs);
        self.listed.store(Arc::new(union(&endpoints)));
        self.endpoints.store(Arc::new(endpoints));
        changes
    }

    /// Makes this the latest report of one of the pool's endpoints.
    pub fn publish(&self, endpoint: &Endpoint, report: Report) {
        let before = Arc::clone(&endpoint.report().models);
        let now = Arc::clone(&report.models);
        endpoint.publish(report);
        if before == now {
            return;
        }
        // Thousands of endpoints that begin to list the same model must not each go over all the others.
        let _one_at_a_time = self.changing.lock();
        let listed = self.listed.load();
        let gone = before.iter().any(|model| !now.contains(model));
        if gone || now.iter().any(|model| listed.binary_search(model).is_err()) {
            self.listed.store(Arc::new(union(&self.endpoints.load())));
        }
    }

    /// The models that it serves, sorted: the configured ones, else what the endpoints list.
    #[must_use]
    pub fn models(&self) -> Vec<Box<str>> {
        if self.configured.is_empty() { self.listed.load().to_vec() } else { self.configured.to_vec() }
    }

    /// The model that is meant by this name, when this pool serves it.
    #[must_use]
    pub fn model<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if let Some(model) = self.aliases.get(name) {
            return Some(model);
        }
        let served = |models: &[Box<str>]| models.binary_search_by(|known| (**known).cmp(name)).is_ok();
        let serves =
            if self.configured.is_empty() { served(&self.listed.load()) } else { served(&self.configured) };
        serves.then_some(name)
    }

    /// Whether its endpoints list several models, so that they may differ in what they serve.
    #[must_use]
    pub fn lists_several(&self) -> bool {
        self.listed.load().len() > 1
    }

    /// Whether it serves a model of this name, or one whose alias it is.
    #[must_use]
    pub fn serves(&self, name: &str) -> bool {
        self.model(name).is_some()
    }

    /// Whether the endpoints have said yet what they serve, or need not.
    #[must_use]
    pub fn models_known(&self) -> bool {
        !self.configured.is_empty() || !self.listed.load().is_empty()
    }

    /// Whether it has an endpoint up and knows its models.
    #[must_use]
    pub fn ready(&self, now: Nanos) -> bool {
        let up = |endpoint: &Arc<Endpoint>| endpoint.health.status() == Status::Up && endpoint.usable(now);
        self.models_known() && self.endpoints.load().iter().any(up)
    }
}

fn merge(old: &[Arc<Endpoint>], specs: Vec<EndpointSpec>) -> (Vec<Arc<Endpoint>>, Changes) {
    let mut known: HashMap<&str, &Arc<Endpoint>> = old.iter().map(|old| (&*old.name, old)).collect();
    let mut changes = Changes::default();
    let mut endpoints: Vec<Arc<Endpoint>> = Vec::with_capacity(specs.len());
    let mut names = BTreeSet::new();
    for spec in specs {
        let name = spec.url.name();
        if !names.insert(name.clone()) {
            continue;
        }
        endpoints.push(match known.remove(name.as_str()) {
            Some(old) if old.is(&spec) => Arc::clone(old),
            Some(old) => Arc::new(old.changed(spec)),
            None => {
                let new = Arc::new(Endpoint::new(spec));
                changes.added.push(Arc::clone(&new));
                new
            }
        });
    }
    changes.removed = old.iter().filter(|old| known.contains_key(&*old.name)).cloned().collect();
    (endpoints, changes)
}

fn union(endpoints: &[Arc<Endpoint>]) -> Vec<Box<str>> {
    let mut models = BTreeSet::new();
    for endpoint in endpoints {
        models.extend(endpoint.report().models.iter().cloned());
    }
    models.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Role, Url};

    fn spec(names: &[&str]) -> PoolSpec {
        let endpoints = names.iter().map(|name| EndpointSpec::new(Url::parse(name).unwrap())).collect();
        PoolSpec { name: "p".into(), chain: "default".into(), endpoints, ..PoolSpec::default() }
    }

    fn models(names: &[&str]) -> Report {
        Report { models: names.iter().map(|name| Box::from(*name)).collect(), ..Report::default() }
    }

    #[test]
    fn endpoints_keep_handle_and_load_over_updates() {
        let pool = Pool::new(spec(&["a:1", "b:1"]));
        let before = pool.endpoints();
        let held = before[0].reserve(10, 10);
        let mut specs = spec(&["c:1", "a:1"]).endpoints;
        specs[1].role = Role::Prefill;
        let changes = pool.update(specs);
        assert_eq!(changes.added.len(), 1);
        assert_eq!(changes.removed.iter().map(|e| &*e.name).collect::<Vec<_>>(), ["b:1"]);
        let after = pool.endpoint("a:1").unwrap();
        assert_eq!((after.id, after.role), (before[0].id, Role::Prefill));
        assert_eq!(after.load.prefill_tokens(), 10);
        drop(held);
        assert_eq!(after.load.requests(), 0);
        let back = pool.update(spec(&["b:1"]).endpoints).added;
        assert_ne!(back[0].id, before[1].id, "a handle is never used again");
    }

    #[test]
    fn models_are_what_the_endpoints_list() {
        let pool = Pool::new(spec(&["a:1", "b:1"]));
        assert!(!pool.models_known() && !pool.serves("x"));
        let endpoints = pool.endpoints();
        pool.publish(&endpoints[0], models(&["y", "x"]));
        pool.publish(&endpoints[1], models(&["z", "x"]));
        assert_eq!(pool.models(), ["x", "y", "z"].map(Box::from));
        assert!(pool.serves("z") && endpoints[1].lists("z") && !endpoints[0].lists("z"));
        pool.update(spec(&["a:1"]).endpoints);
        assert!(!pool.serves("z"));
    }

    #[test]
    fn a_model_is_gone_with_the_last_endpoint_that_lists_it() {
        let pool = Pool::new(spec(&["a:1", "b:1"]));
        let endpoints = pool.endpoints();
        for endpoint in endpoints.iter() {
            pool.publish(endpoint, models(&["x", "y"]));
        }
        pool.publish(&endpoints[0], models(&["x"]));
        assert!(pool.serves("y"));
        pool.publish(&endpoints[1], models(&["x"]));
        assert!(pool.serves("x") && !pool.serves("y"));
    }

    #[test]
    fn configured_models_and_aliases_win() {
        let mut spec = spec(&["a:1"]);
        spec.models = vec!["m".into()];
        spec.aliases = vec![("gpt".into(), "m".into())];
        let pool = Pool::new(spec);
        pool.publish(&pool.endpoints()[0], models(&["other"]));
        assert_eq!((pool.model("gpt"), pool.model("m"), pool.model("other")), (Some("m"), Some("m"), None));
    }

    #[test]
    fn ready_needs_an_endpoint_up_and_models() {
        let pool = Pool::new(spec(&["a:1"]));
        let endpoint = pool.endpoint("a:1").unwrap();
        endpoint.health.probe_ok();
        assert!(!pool.ready(0));
        pool.publish(&endpoint, models(&["m"]));
        assert!(pool.ready(0));
        endpoint.drain(true);
        assert!(!pool.ready(0));
    }
}
