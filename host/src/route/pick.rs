//! The order in which endpoints are tried when no picker says it.
//!
//! The highest sum of weighted scores first. Equal sums, and no scores at all, go by load for their weight,
//! then by a random number of the request: never the first in the list.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use crate::policy::Request;
use crate::pool::Endpoint;

/// Sums that differ by less count as equal: f32 noise must not decide.
const SAME: f32 = 1e-6;

/// How many of the best are in exact order. The rest follows, all worse than these, in no order: sorting thousands
/// of endpoints for a request that needs one would cost more than all of its policies.
const SORTED: usize = 64;

/// Rounded score, load for weight, lot, position.
type Key = (f32, f32, u64, u32);

/// The endpoint's load for its weight, as it is now.
#[expect(clippy::cast_precision_loss, reason = "a load that f32 cannot hold exactly is no tie")]
pub(super) fn load(endpoint: &Endpoint) -> f32 {
    endpoint.load.requests() as f32 / endpoint.weight.max(f32::MIN_POSITIVE)
}

/// All positions, best first. `load` is asked once for each endpoint, in order.
pub(super) fn by_score(
    endpoints: &[Arc<Endpoint>],
    request: &Request,
    scores: &[f32],
    mut load: impl FnMut(&Endpoint) -> f32,
) -> Vec<u32> {
    let seed = xxhash_rust::xxh64::xxh64(request.id.as_bytes(), 1);
    let mut keyed: Vec<Key> = endpoints
        .iter()
        .zip(scores)
        .zip(0_u32..)
        .map(|((endpoint, score), position)| {
            let lot = xxhash_rust::xxh64::xxh64(&endpoint.key.0.to_le_bytes(), seed);
            ((score / SAME).round(), load(endpoint), lot, position)
        })
        .collect();
    let better = |a: &Key, b: &Key| -> Ordering {
        let score = b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal);
        score.then(a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal)).then(a.2.cmp(&b.2))
    };
    if keyed.len() > SORTED {
        keyed.select_nth_unstable_by(SORTED, better);
    }
    let exact = SORTED.min(keyed.len());
    if let Some(best) = keyed.get_mut(..exact) {
        best.sort_unstable_by(better);
    }
    keyed.into_iter().map(|(_, _, _, position)| position).collect()
}

/// A picker's positions, then all others by score.
pub(super) fn completed(picked: Vec<u32>, all_by_score: Vec<u32>) -> Vec<u32> {
    let mut order = picked;
    let named: HashSet<u32> = order.iter().copied().collect();
    order.extend(all_by_score.into_iter().filter(|position| !named.contains(position)));
    order
}
