//! The endpoints of one pool, and the models that they serve together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::atomic::AtomicF32;
use super::{Ejection, Endpoint, EndpointSpec, Report, Status};
use crate::clock::Nanos;
use crate::types::{Dialect, Engine};

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
    /// How its engines hand over KV; none finds out.
    pub dialect: Option<Dialect>,
    /// Its endpoints, of which no two have the same name.
    pub endpoints: Vec<EndpointSpec>,
    /// When endpoints are ejected.
    pub ejection: Ejection,
    /// Where endpoints are asked whether they are well; none leaves it to their metrics.
    pub check: Option<Check>,
}

/// Where endpoints are asked whether they are well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The path, from its slash on.
    pub path: Box<str>,
    /// Time between two questions.
    pub interval: Nanos,
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
    /// How its engines hand over KV; none finds out.
    pub dialect: Option<Dialect>,
    /// When endpoints are ejected.
    pub ejection: Ejection,
    /// Where endpoints are asked whether they are well.
    pub check: Option<Check>,
    configured: Arc<[Box<str>]>,
    aliases: HashMap<Box<str>, Box<str>>,
    /// The same for all configurations that the pool goes through.
    members: Arc<Members>,
}

/// The endpoints of a pool, and what they list.
#[derive(Debug, Default)]
struct Members {
    endpoints: ArcSwap<Vec<Arc<Endpoint>>>,
    /// The union of what the endpoints list, sorted.
    listed: ArcSwap<Vec<Box<str>>>,
    /// How full the pool may be for those who wait to be let in; NaN while nobody waits.
    lets_in_to: AtomicF32,
    /// Held while `endpoints` or `listed` is replaced.
    changing: Mutex<()>,
}

impl Pool {
    /// A pool of new endpoints.
    #[must_use]
    pub fn new(spec: PoolSpec) -> Self {
        Self::over(Arc::default(), spec)
    }

    /// This pool under another configuration, whose endpoints are those of this one from now on too: whoever still
    /// holds the old one sees them come and go. Endpoints whose names stay keep their handles, their load and what
    /// was learned of them.
    #[must_use]
    pub fn reconfigured(&self, spec: PoolSpec) -> Self {
        Self::over(Arc::clone(&self.members), spec)
    }

    fn over(members: Arc<Members>, spec: PoolSpec) -> Self {
        let PoolSpec { name, chain, mut models, aliases, engine, dialect, endpoints, ejection, check } = spec;
        models.sort_unstable();
        models.dedup();
        let (configured, aliases) = (models.into(), aliases.into_iter().collect());
        let pool = Self { name, chain, engine, dialect, ejection, check, configured, aliases, members };
        pool.update(endpoints);
        pool
    }

    /// The endpoints, in the order in which they were named.
    #[must_use]
    pub fn endpoints(&self) -> Arc<Vec<Arc<Endpoint>>> {
        self.members.endpoints.load_full()
    }

    /// How full the pool may be for those who wait to be let in, 0 to 1; none while nobody waits. Limits are learned by it.
    pub fn set_lets_in_to(&self, saturation: Option<f32>) {
        // Less would make a limit of anything that runs.
        self.members.lets_in_to.set(saturation.map_or(f32::NAN, |saturation| saturation.clamp(0.1, 1.0)));
    }

    /// Learns how many requests an endpoint serves well at once from its load and its latest report.
    pub fn learn_limit(&self, endpoint: &Endpoint, now: Nanos) {
        let lets_in_to = self.members.lets_in_to.get();
        endpoint.learn_limit(now, if lets_in_to.is_nan() { 1.0 } else { lets_in_to });
    }

    /// The endpoint of this name.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<Arc<Endpoint>> {
        self.members.endpoints.load().iter().find(|endpoint| &*endpoint.name == name).cloned()
    }

    /// Puts these endpoints in the place of the present ones; see [`Self::reconfigured`].
    pub fn update(&self, specs: Vec<EndpointSpec>) -> Changes {
        let _one_at_a_time = self.members.changing.lock();
        let (endpoints, changes) = merge(&self.members.endpoints.load(), specs);
        self.members.listed.store(Arc::new(union(&endpoints)));
        self.members.endpoints.store(Arc::new(endpoints));
        changes
    }

    /// A request was served by one of the pool's endpoints. True when it was ejected before.
    pub fn succeeded(&self, endpoint: &Endpoint, now: Nanos) -> bool {
        endpoint.health.request_ok();
        endpoint.circuit.succeeded(now)
    }

    /// A request failed after it was sent to one of the pool's endpoints (a 5xx, a broken stream, a timeout). True
    /// when the endpoint was ejected for it.
    pub fn failed(&self, endpoint: &Endpoint, now: Nanos, error: &str) -> bool {
        endpoint.health.request_failed(error);
        let room = || {
            let endpoints = self.members.endpoints.load();
            let ejected = endpoints.iter().filter(|endpoint| !endpoint.circuit.closed()).count();
            (ejected + 1) * 100 <= endpoints.len() * self.ejection.percent as usize
        };
        endpoint.circuit.failed(now, endpoint.health.success_ratio(), &self.ejection, room)
    }

    /// One of the pool's endpoints said that it is busy, for this time.
    pub fn busy(&self, endpoint: &Endpoint, now: Nanos, time: Nanos) {
        endpoint.circuit.pause(now, time);
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
        let _one_at_a_time = self.members.changing.lock();
        let listed = self.members.listed.load();
        let gone = before.iter().any(|model| !now.contains(model));
        if gone || now.iter().any(|model| listed.binary_search(model).is_err()) {
            self.members.listed.store(Arc::new(union(&self.members.endpoints.load())));
        }
    }

    /// The models that it serves, sorted: the configured ones, else what the endpoints list.
    #[must_use]
    pub fn models(&self) -> Vec<Box<str>> {
        if self.configured.is_empty() {
            self.members.listed.load().to_vec()
        } else {
            self.configured.to_vec()
        }
    }

    /// The model that is meant by this name, when this pool serves it.
    #[must_use]
    pub fn model<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        if let Some(model) = self.aliases.get(name) {
            return Some(model);
        }
        let served = |models: &[Box<str>]| models.binary_search_by(|known| (**known).cmp(name)).is_ok();
        let serves = if self.configured.is_empty() {
            served(&self.members.listed.load())
        } else {
            served(&self.configured)
        };
        serves.then_some(name)
    }

    /// Whether its endpoints list several models, so that they may differ in what they serve.
    #[must_use]
    pub fn lists_several(&self) -> bool {
        self.members.listed.load().len() > 1
    }

    /// Whether it serves a model of this name, or one whose alias it is.
    #[must_use]
    pub fn serves(&self, name: &str) -> bool {
        self.model(name).is_some()
    }

    /// Whether the endpoints have said yet what they serve, or need not.
    #[must_use]
    pub fn models_known(&self) -> bool {
        !self.configured.is_empty() || !self.members.listed.load().is_empty()
    }

    /// Whether it has an endpoint up and knows its models.
    #[must_use]
    pub fn ready(&self, now: Nanos) -> bool {
        let up = |endpoint: &Arc<Endpoint>| endpoint.health.status() == Status::Up && endpoint.usable(now);
        self.models_known() && self.members.endpoints.load().iter().any(up)
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
            Some(old) if old.url.https == spec.url.https => Arc::new(old.changed(spec)),
            // One that is spoken to otherwise is another one: connections to the old one are of no use.
            replaced => {
                changes.removed.extend(replaced.cloned());
                let new = Arc::new(Endpoint::new(spec));
                if !old.is_empty() {
                    new.circuit.join_late();
                }
                changes.added.push(Arc::clone(&new));
                new
            }
        });
    }
    changes.removed.extend(old.iter().filter(|old| known.contains_key(&*old.name)).cloned());
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
    fn another_configuration_keeps_the_endpoints() {
        let pool = Pool::new(spec(&["a:1", "b:1"]));
        let before = pool.endpoints();
        let mut other = spec(&["b:1", "c:1"]);
        other.chain = "other".into();
        let after = pool.reconfigured(other);
        assert_eq!(&*after.chain, "other");
        assert_eq!(after.endpoint("b:1").unwrap().id, before[1].id);
        assert!(
            Arc::ptr_eq(&pool.endpoints(), &after.endpoints()),
            "who holds the old one sees the new endpoints"
        );
        after.update(spec(&["https://b:1"]).endpoints);
        assert_ne!(after.endpoints()[0].id, before[1].id, "one that is spoken to otherwise is another one");
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
