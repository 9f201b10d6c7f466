//! Flows that meet in a band: at first nobody knows what each of them needs.

/// How long it takes to know what the flows of a band need.
const KNOWN_AFTER_MS: u64 = 5_000;
/// A contest of which nothing is heard for so long is over.
const OVER_AFTER_MS: u64 = 10_000;

/// Whether several flows share a band, and since when.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contest {
    /// The flow that was heard of last.
    last: Option<u32>,
    /// From when on it is known what each needs, and when two flows were last heard of one after the other.
    since: Option<(u64, u64)>,
}

impl Contest {
    /// One of which another instance knew what each needs.
    pub(crate) fn known(now_ms: u64) -> Self {
        Self { since: Some((now_ms, now_ms)), last: None }
    }

    /// Something is heard of a flow.
    pub(crate) fn heard(&mut self, flow: u32, now_ms: u64) {
        if self.last.replace(flow).is_none_or(|last| last == flow) {
            return;
        }
        let known = self.since.filter(|(_, last)| now_ms.saturating_sub(*last) < OVER_AFTER_MS);
        let known_ms = known.map_or(now_ms.saturating_add(KNOWN_AFTER_MS), |(known_ms, _)| known_ms);
        self.since = Some((known_ms, now_ms));
    }

    /// Whether there was time to see what each needs, or there is nobody else.
    pub(crate) fn is_known(&self, now_ms: u64) -> bool {
        self.since
            .is_none_or(|(known_ms, last)| now_ms >= known_ms || now_ms.saturating_sub(last) >= OVER_AFTER_MS)
    }
}
