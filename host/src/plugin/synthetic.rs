//! Requests, candidates, flows and events that nobody sent: what plugins are tried with.

use std::sync::Arc;

use crate::policy::{ColumnId, EndpointView, Event, EventKind, FlowRow, Flows, PrefixSource, Request};
use crate::types::{Api, EndpointId, EndpointKey, Profile};

/// What the values of columns are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Small numbers, different at each candidate.
    Ordinary,
    /// None is known.
    Missing,
    /// All are 0.
    Zero,
    /// All are below 0.
    Negative,
    /// The largest and the smallest that there are, in turn.
    Extreme,
    /// Infinities, as an engine may report them.
    Infinite,
}

/// Candidates that are made up.
#[derive(Debug)]
pub(super) struct Endpoints {
    pub(super) len: usize,
    pub(super) values: Values,
}

impl Endpoints {
    pub(super) fn view(len: usize, values: Values) -> Arc<dyn EndpointView> {
        Arc::new(Self { len, values })
    }

    fn value(&self, column: ColumnId, position: u16) -> f32 {
        match self.values {
            Values::Ordinary => {
                f32::from(position.wrapping_mul(31).wrapping_add(low(column)) % 97) / 97.0 * 8.0
            }
            Values::Missing => f32::NAN,
            Values::Zero => 0.0,
            Values::Negative => -1.0 - f32::from(position),
            Values::Extreme if position.is_multiple_of(2) => f32::MAX,
            Values::Extreme if position.is_multiple_of(3) => f32::MIN_POSITIVE,
            Values::Extreme => f32::MIN,
            Values::Infinite if position.is_multiple_of(2) => f32::INFINITY,
            Values::Infinite => f32::NEG_INFINITY,
        }
    }
}

fn low(column: ColumnId) -> u16 {
    u16::try_from(column.0 % 997).unwrap_or_default()
}

impl EndpointView for Endpoints {
    fn len(&self) -> usize {
        self.len
    }

    fn profile(&self) -> Profile {
        Profile::Decode
    }

    fn ids(&self) -> Vec<u32> {
        (0..).take(self.len).collect()
    }

    fn keys(&self) -> Vec<u64> {
        (0..self.len).map(|n| EndpointKey::of(&format!("10.0.0.1:{n}")).0).collect()
    }

    fn column(&self, column: ColumnId, missing: f32) -> Option<Vec<f32>> {
        let value = |position: usize| {
            let value = self.value(column, u16::try_from(position % 60_000).unwrap_or_default());
            if value.is_nan() { missing } else { value }
        };
        Some((0..self.len).map(value).collect())
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        (self.values != Values::Missing).then(|| format!("{key}-{}", position % 4))
    }
}

/// The same numbers every time at no cost: a call that is timed shall not pay for making them up.
#[derive(Debug)]
pub(super) struct Prepared {
    endpoints: Endpoints,
    columns: Vec<(ColumnId, Vec<f32>)>,
}

impl Prepared {
    pub(super) fn view(len: usize, columns: &[ColumnId]) -> Arc<dyn EndpointView> {
        let endpoints = Endpoints { len, values: Values::Ordinary };
        let columns = columns.iter().filter_map(|id| Some((*id, endpoints.column(*id, f32::NAN)?)));
        let columns = columns.collect();
        Arc::new(Self { endpoints, columns })
    }
}

impl EndpointView for Prepared {
    fn len(&self) -> usize {
        self.endpoints.len()
    }

    fn profile(&self) -> Profile {
        self.endpoints.profile()
    }

    fn ids(&self) -> Vec<u32> {
        self.endpoints.ids()
    }

    fn keys(&self) -> Vec<u64> {
        self.endpoints.ids().into_iter().map(u64::from).collect()
    }

    fn column(&self, column: ColumnId, _: f32) -> Option<Vec<f32>> {
        self.columns.iter().find(|(id, _)| *id == column).map(|(_, values)| values.clone())
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.endpoints.label(position, key)
    }
}

/// An unremarkable request; equal numbers are the same request.
pub(super) fn request(number: usize) -> Request {
    let keys: Arc<[u64]> = (0..16).map(|block| block + (number as u64 % 8) * 1_000).collect();
    Request {
        id: format!("trial-{number}").into(),
        api: Api::Chat,
        path: "/v1/chat/completions".into(),
        model: "trial".into(),
        adapter: None,
        tenant: Some(format!("tenant-{}", number % 3).into()),
        flow: format!("flow-{}", number % 5).into(),
        priority: [0, 0, 1, -1].get(number % 4).copied().unwrap_or_default(),
        session: Some(format!("session-{}", number % 1_000).into()),
        continues: None,
        turn: u32::try_from(number % 7).unwrap_or_default(),
        prompt_tokens: 1_000,
        prompt_tokens_exact: number.is_multiple_of(2),
        tokenizer: None,
        max_output_tokens: Some(100),
        streaming: true,
        ttft_target_ms: Some(500.0),
        tpot_target_ms: None,
        ttl_ms: None,
        arrived: 0,
        headers: http::HeaderMap::new(),
        body: bytes::Bytes::from_static(b"{}"),
        prefix: Some(PrefixSource::hashed_before(keys, 64)),
    }
}

/// A request of texts that are far too long and numbers at their ends.
pub(super) fn overlong() -> Request {
    let long: Box<str> = "\u{1f30a}long\0text\n".repeat(6_000).into();
    Request {
        id: (&*long).into(),
        path: long.clone(),
        model: long.clone(),
        adapter: Some(long.clone()),
        tenant: Some(long.clone()),
        flow: long.clone(),
        session: Some(long),
        priority: i32::MIN,
        turn: u32::MAX,
        prompt_tokens: u32::MAX,
        max_output_tokens: Some(u32::MAX),
        ttft_target_ms: Some(f32::MAX),
        tpot_target_ms: Some(f32::MIN_POSITIVE),
        ..request(0)
    }
}

/// A request of which nothing is known and nothing is set.
pub(super) fn bare() -> Request {
    Request {
        id: "".into(),
        api: Api::Other,
        path: "/".into(),
        model: "".into(),
        tenant: None,
        flow: "".into(),
        priority: i32::MAX,
        session: None,
        turn: 0,
        prompt_tokens: 0,
        max_output_tokens: None,
        streaming: false,
        ttft_target_ms: None,
        body: bytes::Bytes::new(),
        prefix: None,
        ..request(0)
    }
}

/// So many waiting flows, each with something in it.
pub(super) fn flows(len: u32) -> Arc<Flows> {
    let row = |id: u32| FlowRow {
        id,
        name: format!("flow-{id}").into(),
        band: i32::try_from(id % 3).unwrap_or_default() - 1,
        length: 1 + id % 5,
        head_age_ms: u64::from(id) * 10,
        head_cost: 100 + id,
        head_rank: 0.0,
        head_deadline_ms: (!id.is_multiple_of(2)).then_some(1_000),
        weight: 1.0,
        inflight_tokens: 0,
        served_tokens: u64::from(id) * 1_000,
    };
    Arc::new(Flows { rows: (0..len).map(row).collect() })
}

/// Flows whose every number is at its end.
pub(super) fn extreme_flows(len: u32) -> Arc<Flows> {
    let name: Arc<str> = "f".repeat(10_000).into();
    let row = |id: u32| FlowRow {
        id: u32::MAX - id,
        name: name.clone(),
        band: if id.is_multiple_of(2) { i32::MIN } else { i32::MAX },
        length: u32::MAX,
        head_age_ms: u64::MAX,
        head_cost: u32::MAX,
        head_rank: f64::MAX,
        head_deadline_ms: Some(0),
        weight: f32::MIN_POSITIVE,
        inflight_tokens: u64::MAX,
        served_tokens: u64::MAX,
    };
    Arc::new(Flows { rows: (0..len).map(row).collect() })
}

/// The life of requests from `first` on, three events each, one batch.
pub(super) fn lives(first: usize, count: usize) -> Arc<[Event]> {
    let kinds = [EventKind::Dispatched, EventKind::FirstToken, EventKind::Completed];
    let events = (first..first + count).flat_map(|number| kinds.map(|kind| event(kind, number)));
    events.collect()
}

fn event(kind: EventKind, number: usize) -> Event {
    let small = u32::try_from(number % 1_000).unwrap_or_default();
    Event {
        kind,
        request: format!("trial-{number}").into(),
        flow: Some(small % 8),
        band: Some(0),
        endpoint: Some(EndpointId(small % 16)),
        at_ms: number as u64,
        prompt_tokens: 1_000,
        cached_tokens: Some(500),
        output_tokens: if kind == EventKind::Dispatched { 0 } else { 100 },
    }
}

/// Events that fit to nothing that came before, with numbers at their ends.
pub(super) fn stray_events() -> Arc<[Event]> {
    let kinds = [EventKind::Failed, EventKind::Cancelled, EventKind::Completed, EventKind::FirstToken];
    let stray = kinds.into_iter().zip(0..).map(|(kind, number)| Event {
        request: "r".repeat(number * 10_000).into(),
        flow: (!number.is_multiple_of(2)).then_some(u32::MAX),
        band: (!number.is_multiple_of(2)).then_some(i32::MIN),
        endpoint: (!number.is_multiple_of(2)).then_some(EndpointId(u32::MAX)),
        at_ms: u64::MAX,
        prompt_tokens: u32::MAX,
        cached_tokens: None,
        output_tokens: u32::MAX,
        ..event(kind, number)
    });
    stray.collect()
}
