//! What trial calls are about: ordinary values, and those at the edges of what may come.

use std::sync::Arc;

use super::REQUEST_ID;
use crate::policy::{ColumnId, EndpointView, Event, EventKind, FlowRow, Flows, Placement, Request};
use crate::types::{Api, EndpointId, Profile};

/// Bytes of a long text: what a header may hold.
const LONG: usize = 8 * 1_024;

/// The values of one trial call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Face {
    /// Columns from 0 up, a prompt of 1,000 tokens.
    Ordinary,
    /// As little as there can be.
    Zero,
    /// As much as the types hold.
    Huge,
    /// Numbers below what makes sense.
    Negative,
    /// Nothing is known.
    Unknown,
}

impl std::fmt::Display for Face {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ordinary => "ordinary values",
            Self::Zero => "zeros (0 in every column, no prompt tokens, empty texts)",
            Self::Huge => {
                "the largest values (3.4e38 in every column, 4294967295 prompt tokens, texts of 8 KiB)"
            }
            Self::Negative => "negative values (-1 in every column, the lowest priority)",
            Self::Unknown => "nothing known (every column is as `missing` says, every option is none)",
        })
    }
}

impl Face {
    /// All but the ordinary one.
    pub(super) const EDGES: [Self; 4] = [Self::Zero, Self::Huge, Self::Negative, Self::Unknown];

    /// Picks the value for this face; what is unknown is as small as there can be where it is no option.
    fn of<T>(self, ordinary: T, smallest: T, largest: T) -> T {
        match self {
            Self::Ordinary => ordinary,
            Self::Zero | Self::Negative | Self::Unknown => smallest,
            Self::Huge => largest,
        }
    }

    fn text(self, ordinary: &str) -> String {
        self.of(ordinary.into(), String::new(), "x".repeat(LONG))
    }

    fn option<T>(self, ordinary: Option<T>, smallest: T, largest: T) -> Option<T> {
        match self {
            Self::Ordinary => ordinary,
            Self::Unknown => None,
            Self::Zero | Self::Negative => Some(smallest),
            Self::Huge => Some(largest),
        }
    }

    /// The request, with the id by which guests may know it.
    pub(super) fn request(self) -> Request {
        let text = |text: &str| self.text(text).into_boxed_str();
        let maybe = |name: &str| self.option(None, String::new(), name.repeat(LONG)).map(String::into);
        Request {
            id: REQUEST_ID.into(),
            api: Api::Chat,
            path: text("/v1/chat/completions"),
            model: text("probe"),
            adapter: maybe("a"),
            tenant: maybe("t"),
            flow: self.of("", "", "flow").repeat(LONG / 8).into(),
            priority: self.of(0, if self == Self::Negative { i32::MIN } else { 0 }, i32::MAX),
            session: maybe("s"),
            continues: None,
            turn: self.of(0, 0, u32::MAX),
            prompt_tokens: self.of(1_000, 0, u32::MAX),
            prompt_tokens_exact: self == Self::Huge,
            tokenizer: None,
            max_output_tokens: self.option(Some(100), 0, u32::MAX),
            streaming: self != Self::Zero,
            ttft_target_ms: self.option(None, self.lowest(), f32::MAX),
            tpot_target_ms: self.option(None, self.lowest(), f32::MAX),
            ttl_ms: self.option(None, 0, u32::MAX),
            arrived: 0,
            headers: http::HeaderMap::new(),
            body: bytes::Bytes::from_static(b"{}"),
            prefix: None,
        }
    }

    fn lowest(self) -> f32 {
        if self == Self::Negative { -1.0 } else { 0.0 }
    }

    /// Sums of weighted scores.
    pub(super) fn scores(self, len: usize) -> Vec<f32> {
        vec![self.of(0.5, 0.0, f32::MAX); len]
    }

    /// Waiting flows, the first of which is that of a placement.
    pub(super) fn flows(self, placement: &Placement, len: usize) -> Arc<Flows> {
        let row = |id: u32| FlowRow {
            id,
            name: (&*placement.flow).into(),
            band: placement.band,
            length: self.of(1, 1, u32::MAX),
            head_age_ms: self.of(1, 0, u64::MAX),
            head_cost: self.of(placement.cost, 0, u32::MAX),
            head_rank: self.of(placement.rank, self.lowest().into(), f64::MAX),
            head_deadline_ms: self.option(None, 0, u64::MAX),
            weight: placement.weight,
            inflight_tokens: self.of(0, 0, u64::MAX),
            served_tokens: self.of(0, 0, u64::MAX),
        };
        Arc::new(Flows { rows: (0..).take(len).map(row).collect() })
    }

    /// Events of every kind.
    pub(super) fn events(self, len: usize) -> Arc<[Event]> {
        const KINDS: [EventKind; 5] = [
            EventKind::Dispatched,
            EventKind::FirstToken,
            EventKind::Completed,
            EventKind::Failed,
            EventKind::Cancelled,
        ];
        let event = |kind| Event {
            kind,
            request: REQUEST_ID.into(),
            flow: self.option(Some(0), 0, u32::MAX),
            band: self.option(Some(0), i32::MIN, i32::MAX),
            endpoint: self.option(Some(0), 0, u32::MAX).map(EndpointId),
            at_ms: self.of(1, 0, u64::MAX),
            prompt_tokens: self.of(1_000, 0, u32::MAX),
            cached_tokens: self.option(Some(500), 0, u32::MAX),
            output_tokens: self.of(10, 0, u32::MAX),
        };
        KINDS.into_iter().cycle().take(len).map(event).collect()
    }

    /// Candidates.
    pub(super) fn endpoints(self, len: usize) -> Arc<dyn EndpointView> {
        Arc::new(Endpoints { face: self, len })
    }
}

#[derive(Debug)]
struct Endpoints {
    face: Face,
    len: usize,
}

impl EndpointView for Endpoints {
    fn len(&self) -> usize {
        self.len
    }

    fn profile(&self) -> Profile {
        self.face.of(Profile::Decode, Profile::Prefill, Profile::Decode)
    }

    fn ids(&self) -> Vec<u32> {
        match self.face {
            Face::Huge => (0..=u32::MAX).rev().take(self.len).collect(),
            _ => (0..).take(self.len).collect(),
        }
    }

    fn keys(&self) -> Vec<u64> {
        match self.face {
            Face::Huge => (0..=u64::MAX).rev().take(self.len).collect(),
            _ => (0..).take(self.len).collect(),
        }
    }

    fn column(&self, _: ColumnId, missing: f32) -> Option<Vec<f32>> {
        Some(match self.face {
            Face::Ordinary => (0_u16..).take(self.len).map(f32::from).collect(),
            Face::Zero => vec![0.0; self.len],
            Face::Huge => vec![f32::MAX; self.len],
            Face::Negative => vec![-1.0; self.len],
            Face::Unknown => vec![missing; self.len],
        })
    }

    fn label(&self, position: usize, _: &str) -> Option<String> {
        (position < self.len).then(|| self.face.option(None, String::new(), "x".repeat(LONG))).flatten()
    }
}
