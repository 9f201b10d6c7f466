//! The engine's own `priority` field, from the request's place in our queue.
//!
//! What leaves our queue together still waits inside the engine for a step; with the field it does so in our order.

use bytes::Bytes;

use super::job::Job;
use crate::api::splice;
use crate::config::EnginePriority;
use crate::policy::Placement;

const FIELD: &str = "priority";
/// What a band is worth against ranks.
const BAND: i64 = 1_000_000_000;

/// The body with the field set, where the pool wants that; what a client said in it is replaced.
pub(super) fn splice(job: &Job, body: Bytes) -> Bytes {
    let value = match job.service.config.engine_priority {
        EnginePriority::Off => return body,
        EnginePriority::HigherFirst => value(&job.placement),
        EnginePriority::LowerFirst => -value(&job.placement),
    };
    // What is no JSON object was refused before.
    splice::edit(&body, &[(FIELD, &value.to_string())], &[]).unwrap_or(body)
}

/// Greater is more important.
#[expect(clippy::cast_possible_truncation, reason = "in bounds by the clamp")]
fn value(placement: &Placement) -> i64 {
    let most = (BAND / 2 - 1) as f64;
    i64::from(placement.band) * BAND + placement.rank.clamp(-most, most) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_come_before_ranks() {
        let value = |band, rank| {
            let placement = Placement { band, rank, ..Placement::of(1) };
            value(&placement)
        };
        assert!(value(1, -1e300) > value(0, 1e300));
        assert!(value(0, 2.0) > value(0, 1.0));
        assert!(value(-1, 0.0) < value(0, -1e300));
    }
}
