//! Where endpoints come from when the configuration names a host and means several.
//!
//! A [`Source`] is an endpoint as it is configured. One that is to be resolved stands for an endpoint an address (A and
//! AAAA) or a target of its SRV records, asked for again and again. A host that cannot be resolved keeps what it had:
//! what is not there any more is found out by asking it.

mod added;
mod srv;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

pub use self::added::{Addition, Additions};
use self::srv::Target;
use crate::config::Resolve;
use crate::pool::{EndpointSpec, Pool};
use crate::types::Url;

/// An endpoint as it is configured.
#[derive(Debug, Clone)]
pub struct Source {
    /// What it, or each that it stands for, is.
    pub spec: EndpointSpec,
    /// What its host stands for.
    pub resolve: Resolve,
}

/// What is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Addresses(Box<str>, u16),
    Srv(Box<str>),
}

impl Question {
    /// None for a host that stands for itself.
    fn of(source: &Source) -> Option<Self> {
        let Url { host, port, .. } = &source.spec.url;
        match source.resolve {
            Resolve::Off => None,
            Resolve::Addresses => Some(Self::Addresses(host.clone(), *port)),
            Resolve::Srv => Some(Self::Srv(host.clone())),
        }
    }

    fn host(&self) -> &str {
        let (Self::Addresses(host, _) | Self::Srv(host)) = self;
        host
    }

    async fn ask(&self, dns: Option<SocketAddr>) -> Result<Vec<Target>, String> {
        match self {
            Self::Addresses(host, port) => {
                let found = tokio::net::lookup_host((&**host, *port)).await;
                let addresses: BTreeSet<_> = found
                    .map_err(|error| error.to_string())?
                    .map(|address| address.ip().to_canonical())
                    .collect();
                let target = |address: std::net::IpAddr| Target {
                    host: address.to_string().into(),
                    port: *port,
                    weight: 0,
                };
                Ok(addresses.into_iter().map(target).collect())
            }
            Self::Srv(name) => srv::targets(name, dns).await.map_err(|error| error.to_string()),
        }
    }
}

/// What hosts were last resolved to.
#[derive(Debug, Default)]
pub struct Names(Mutex<BTreeMap<Question, Vec<Target>>>);

impl Names {
    /// The endpoints that these stand for, as far as is known.
    #[must_use]
    pub fn endpoints(&self, sources: &[Source]) -> Vec<EndpointSpec> {
        let known = self.0.lock();
        let of = |source: &Source| match Question::of(source) {
            None => vec![source.spec.clone()],
            Some(question) => known.get(&question).map_or(Vec::new(), |targets| at(&source.spec, targets)),
        };
        sources.iter().flat_map(of).collect()
    }

    /// Says whether that is news.
    fn found(&self, question: Question, targets: Vec<Target>) -> bool {
        let mut known = self.0.lock();
        let news = known.get(&question) != Some(&targets);
        known.insert(question, targets);
        news
    }
}

/// An endpoint at each target. Weights say how they share what the endpoint's own weight says of all of them; where all
/// are 0 the shares are equal.
fn at(spec: &EndpointSpec, targets: &[Target]) -> Vec<EndpointSpec> {
    let total: f32 = targets.iter().map(|target| f32::from(target.weight)).sum();
    let count = targets.iter().map(|_| 1.0_f32).sum::<f32>();
    let share = |target: &Target| match total > 0.0 {
        // One that is to get nothing while the others are there gets next to nothing.
        true => f32::from(target.weight).max(0.01) * count / total,
        false => 1.0,
    };
    let one = |target: &Target| EndpointSpec {
        url: Url { host: target.host.clone(), port: target.port, ..spec.url.clone() },
        weight: spec.weight * share(target),
        ..spec.clone()
    };
    targets.iter().map(one).collect()
}

/// Keeps a pool's endpoints in step with what its hosts are resolved to, until this future is dropped. SRV records are
/// asked for at `dns`, or at the system's servers.
pub async fn run(
    pool: Arc<Pool>,
    names: Arc<Names>,
    sources: Vec<Source>,
    every: Duration,
    dns: Option<SocketAddr>,
) {
    let questions: BTreeSet<_> = sources.iter().filter_map(Question::of).collect();
    if questions.is_empty() {
        return;
    }
    let mut times = tokio::time::interval(every);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failed = BTreeSet::new();
    loop {
        times.tick().await;
        let mut news = false;
        for question in &questions {
            match question.ask(dns).await {
                Ok(targets) => {
                    failed.remove(question);
                    news |= names.found(question.clone(), targets);
                }
                Err(error) => {
                    if failed.insert(question) {
                        tracing::warn!(pool = &*pool.name, host = question.host(), %error, "it cannot be resolved; its endpoints stay");
                    }
                }
            }
        }
        if news {
            update(&pool, names.endpoints(&sources));
        }
    }
}

fn update(pool: &Pool, endpoints: Vec<EndpointSpec>) {
    let changes = pool.update(endpoints);
    for endpoint in &changes.added {
        tracing::info!(
            pool = &*pool.name,
            endpoint = &*endpoint.name,
            "endpoint is there, by its host's name"
        );
    }
    for endpoint in &changes.removed {
        tracing::info!(
            pool = &*pool.name,
            endpoint = &*endpoint.name,
            "endpoint is gone, by its host's name"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str, resolve: Resolve) -> Source {
        Source { spec: EndpointSpec::new(Url::parse(url).unwrap()), resolve }
    }

    fn target(host: &str, port: u16, weight: u16) -> Target {
        Target { host: host.into(), port, weight }
    }

    fn shown(names: &Names, sources: &[Source]) -> Vec<(String, f32)> {
        names.endpoints(sources).iter().map(|spec| (spec.url.to_string(), spec.weight)).collect()
    }

    #[test]
    fn each_address_is_an_endpoint_with_the_settings_of_its_host() {
        let names = Names::default();
        let mut many = source("http://pods.svc:8000/base", Resolve::Addresses);
        many.spec.weight = 2.0;
        let question = Question::of(&many).unwrap();
        let sources = [source("http://fixed:1", Resolve::Off), many];
        assert_eq!(shown(&names, &sources), [("http://fixed:1".to_owned(), 1.0)]);
        let found = vec![target("10.0.0.1", 8000, 0), target("::1", 8000, 0)];
        assert!(names.found(question.clone(), found.clone()));
        assert!(!names.found(question, found));
        let rest = shown(&names, &sources).split_off(1);
        assert_eq!(rest, [("http://10.0.0.1:8000/base".into(), 2.0), ("http://[::1]:8000/base".into(), 2.0)]);
    }

    #[test]
    fn targets_share_the_weight_of_their_name() {
        let names = Names::default();
        let sources = [source("http://_http._tcp.models.svc", Resolve::Srv)];
        let found = vec![target("a.svc", 8000, 10), target("b.svc", 8001, 30)];
        assert!(names.found(Question::of(&sources[0]).unwrap(), found));
        let expected = [("http://a.svc:8000".into(), 0.5), ("http://b.svc:8001".into(), 1.5)];
        assert_eq!(shown(&names, &sources), expected);
    }
}
