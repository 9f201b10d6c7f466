//! What becomes of requests, for those who compare arms of an experiment.

use xxhash_rust::xxh3::xxh3_64;

use super::job::Spent;
use crate::clock::Nanos;
use crate::policy::{EventKind, Request};
use crate::pool::window::{Ended, Sample};
use crate::route::{Lane, Trace};

/// What a request came to whose client got this status, or went away.
pub(super) fn ended(kind: EventKind, status: u16) -> Ended {
    match (kind, status) {
        (EventKind::Cancelled, _) => Ended::Cancelled,
        (EventKind::Failed, _) => Ended::Failed,
        // An engine that has no room, which is no fault of the client's.
        (_, 429) => Ended::Refused,
        (_, 400..500) => Ended::ClientError,
        _ => Ended::Answered,
    }
}

/// Notes a request that has ended, for the arm that its trace names. `first` is when its first token came.
pub(super) fn note(
    lane: &Lane,
    request: &Request,
    trace: &Trace,
    ended: Ended,
    first: Option<Nanos>,
    spent: Spent,
) {
    // A session whose hash is 0 would be none.
    let session = request.session.as_ref().map_or(0, |session| xxh3_64(session.as_bytes()).max(1));
    let sample = Sample {
        at: request.arrived,
        endpoint: trace.picked(),
        session,
        ended,
        ttft: first.map(|first| first.saturating_sub(request.arrived)),
        prompt_tokens: spent.prompt.unwrap_or(request.prompt_tokens),
        cached_tokens: spent.cached,
    };
    lane.windows.note(trace.arm(), sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_fault_it_was_follows_from_kind_and_status() {
        for (kind, status, is) in [
            (EventKind::Completed, 200, Ended::Answered),
            (EventKind::Completed, 404, Ended::ClientError),
            (EventKind::Completed, 429, Ended::Refused),
            (EventKind::Failed, 500, Ended::Failed),
            (EventKind::Failed, 502, Ended::Failed),
            (EventKind::Cancelled, 499, Ended::Cancelled),
        ] {
            assert_eq!(ended(kind, status), is, "{kind:?} {status}");
        }
    }
}
