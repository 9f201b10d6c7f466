//! What the process knows, written into `state_dir` every so often and when it ends, and read when it starts.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

use super::running::Running;
use crate::clock::{MILLI, Nanos, nanos};
use crate::config::PoolConfig;
use crate::files;
use crate::prefix::Session;
use crate::prefix::index::Node;
use crate::proxy::Service;
use crate::route::started;
use crate::snapshot::{
    End, MAX_BYTES, OfEndpoint, OfPlugin, OfPool, OfSession, PrefixNode, Snapshot, Stored, read, write,
};
use crate::types::EndpointId;

/// How often it is written.
pub(super) const EVERY: Duration = Duration::from_secs(60);
/// The file in `state_dir`.
const FILE: &str = "warm";
/// Hashes that are written at most, over all pools: half of the bytes of a snapshot.
const MAX_HASHES: usize = MAX_BYTES / 16;
/// Blocks that are inserted at most when it is read, a pool.
const MAX_INSERTED: usize = 1 << 26;
/// What is older is no use: the engines' caches hold something else by now.
const OLDEST: Duration = Duration::from_secs(3_600);

/// Writes down what is known.
pub(super) fn save(running: &Running, state_dir: &Path) {
    let snapshot = collect(running);
    if snapshot.is_nothing() {
        return;
    }
    let bytes = write(&snapshot);
    let written = match bytes.len() > MAX_BYTES {
        true => Err(io::Error::other(format!("it has {} bytes", bytes.len()))),
        false => files::replace(&state_dir.join(FILE), &bytes),
    };
    match written {
        Ok(()) => tracing::debug!(bytes = bytes.len(), "what is known is written down"),
        Err(error) => {
            tracing::warn!(state_dir = %state_dir.display(), %error, "what is known cannot be written down; a restart begins cold");
        }
    }
}

/// Takes over what the process before wrote down. Whatever cannot be read is not known.
pub(super) fn restore(running: &Running, state_dir: &Path) {
    let path = state_dir.join(FILE);
    let bytes = match bounded(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "it cannot be read; this process begins cold");
            return;
        }
    };
    let snapshot = match read(&bytes) {
        Ok(snapshot) => snapshot,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "what the process before knew is of no use; this one begins cold");
            return;
        }
    };
    let age = Duration::from_millis(unix_ms().saturating_sub(snapshot.at_unix_ms));
    if age > OLDEST {
        tracing::info!(file = %path.display(), "what the process before knew is {} s old; this one begins cold", age.as_secs());
        return;
    }
    let age = nanos(age);
    let proxy = running.proxy.load_full();
    for known in snapshot.pools {
        if let Some(service) = proxy.pools.iter().find(|service| service.config.name == known.name) {
            restore_pool(service, known, age);
        }
    }
    for plugin in snapshot.plugins {
        let values = plugin.values.into_iter().filter_map(|stored| {
            let left = match stored.ttl_ms {
                None => None,
                Some(ttl) => Some(ttl.saturating_mul(MILLI).checked_sub(age).filter(|left| *left > 0)?),
            };
            Some((stored.key.into(), stored.value, left))
        });
        running.shared.catalog.restore(&plugin.name, values);
    }
    tracing::info!("this process takes over what the one before knew");
}

impl Snapshot {
    fn is_nothing(&self) -> bool {
        let learned = |pool: &OfPool| {
            !pool.prefixes.is_empty()
                || !pool.sessions.is_empty()
                || pool.endpoints.iter().any(|one| one.learned.iter().any(|value| !value.is_nan()))
        };
        !self.pools.iter().any(learned) && self.plugins.iter().all(|plugin| plugin.values.is_empty())
    }
}

fn collect(running: &Running) -> Snapshot {
    let proxy = running.proxy.load_full();
    let hashes = MAX_HASHES / proxy.pools.len().max(1);
    let stored = running.shared.catalog.stored().into_iter();
    let plugins = stored.map(|(name, values)| OfPlugin {
        name,
        values: values
            .into_iter()
            .map(|(key, value, left)| Stored {
                key: key.into(),
                value,
                ttl_ms: left.map(|left| left / MILLI),
            })
            .collect(),
    });
    Snapshot {
        at_unix_ms: unix_ms(),
        pools: proxy.pools.iter().map(|service| collect_pool(service, hashes)).collect(),
        plugins: plugins.filter(|plugin| !plugin.values.is_empty()).collect(),
    }
}

fn collect_pool(service: &Service, hashes: usize) -> OfPool {
    let lane = &service.lane;
    let endpoints = lane.pool.endpoints();
    let place: HashMap<EndpointId, u32> =
        endpoints.iter().zip(0..).map(|(endpoint, place)| (endpoint.id, place)).collect();
    let node = |node: Node| PrefixNode {
        parent: node.parent,
        run: node.run,
        ends: node
            .ends
            .into_iter()
            .filter_map(|(endpoint, held, stamp)| Some(End { endpoint: *place.get(&endpoint)?, held, stamp }))
            .collect(),
    };
    let session = |session: Session| {
        Some(OfSession {
            digest: session.digest,
            endpoint: *place.get(&session.endpoint)?,
            turns: session.turns,
            age_ms: session.age / MILLI,
        })
    };
    OfPool {
        name: lane.pool.name.clone(),
        cut: cut(&service.config),
        measure: lane.measure.ratio(),
        endpoints: endpoints
            .iter()
            .map(|endpoint| OfEndpoint {
                name: endpoint.name.clone(),
                started: started(endpoint).unwrap_or_default(),
                learned: endpoint.latency.learned(),
            })
            .collect(),
        prefixes: lane.index.export(hashes).into_iter().map(node).collect(),
        sessions: lane.sessions.export(lane.clock.now()).into_iter().filter_map(session).collect(),
        saved: service.controller.saved().into_iter().collect(),
    }
}

fn restore_pool(service: &Arc<Service>, known: OfPool, age: Nanos) {
    let lane = &service.lane;
    let now: Vec<_> = known.endpoints.iter().map(|endpoint| lane.pool.endpoint(&endpoint.name)).collect();
    for (endpoint, known) in now.iter().zip(&known.endpoints) {
        let Some(endpoint) = endpoint else { continue };
        endpoint.latency.restore(known.learned);
        // When its process turns out to be another one, what it held is forgotten.
        let started = (known.started > 0).then_some(known.started);
        lane.index.set_life(endpoint.id, endpoint.health.lost(), started);
    }
    let id = |place: u32| Some(now.get(usize::try_from(place).ok()?)?.as_ref()?.id);
    if known.cut == cut(&service.config) {
        lane.measure.restore(known.measure);
        let node = |node: PrefixNode| {
            let ends = node.ends.into_iter().filter_map(|end| Some((id(end.endpoint)?, end.held, end.stamp)));
            Node { parent: node.parent, run: node.run, ends: ends.collect() }
        };
        let nodes: Vec<_> = known.prefixes.into_iter().map(node).collect();
        lane.index.import(&nodes, MAX_INSERTED);
    }
    let session = |session: OfSession| {
        let OfSession { digest, endpoint, turns, age_ms } = session;
        let age = age_ms.saturating_mul(MILLI).saturating_add(age);
        Some(Session { digest, endpoint: id(endpoint)?, turns, age })
    };
    lane.sessions.import(known.sessions.into_iter().filter_map(session), lane.clock.now());
    service.controller.inherit(known.saved.into_iter().collect::<BTreeMap<_, _>>());
}

/// What tells how a pool's prompts are cut into blocks.
fn cut(config: &PoolConfig) -> u64 {
    let tokenizer = config.tokenizer.as_ref().map(|path| path.to_string_lossy().into_owned());
    xxh3_64(format!("{} {}", config.block_tokens, tokenizer.unwrap_or_default()).as_bytes())
}

/// Reads a file that is no longer than a snapshot may be.
fn bounded(path: &PathBuf) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > MAX_BYTES as u64 {
        return Err(io::Error::other("it is too long"));
    }
    std::fs::read(path)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
