//! Where a prompt goes that nobody holds.

use crate::Config;

/// The endpoints that a cold prompt belongs to, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) first: usize,
    pub(crate) second: Option<usize>,
}

/// Difference in milliseconds below which endpoints count as equal.
pub(crate) fn tolerance(least: f32, config: &Config) -> f32 {
    config.near_ms.max(least * config.near_ratio)
}

/// Whether none of the near-equal endpoints holds a prefix worth speaking of beyond what the others hold too.
pub(crate) fn is_cold(ttft: &[f32], limit: f32, cached: &[f32], config: &Config) -> bool {
    let near = ttft.iter().zip(cached).filter(|(ttft, _)| **ttft <= limit).map(|(_, cached)| *cached);
    let (least, most) = near.fold((f32::MAX, f32::MIN), |(least, most), one| (least.min(one), most.max(one)));
    most - least < config.cold_tokens
}

/// The less loaded of the two near-equal endpoints with the greatest rendezvous weights, then the other; but
/// first of all the one that the session knows. None where no weight tells them apart.
pub(crate) fn home(ttft: &[f32], limit: f32, rendezvous: &[f32], session: Option<usize>) -> Option<Home> {
    let mut best: Option<(usize, f32)> = None;
    let mut next: Option<(usize, f32)> = None;
    for (position, (_, weight)) in
        ttft.iter().zip(rendezvous).enumerate().filter(|(_, (ttft, _))| **ttft <= limit)
    {
        if best.is_none_or(|(_, most)| *weight > most) {
            next = best.replace((position, *weight));
        } else if next.is_none_or(|(_, most)| *weight > most) {
            next = Some((position, *weight));
        }
    }
    let time = |position: usize| ttft.get(position).copied().unwrap_or(f32::MAX);
    if let Some(session) = session.filter(|session| time(*session) <= limit) {
        return Some(Home { first: session, second: None });
    }
    match (best?, next?) {
        ((_, most), (_, more)) if most <= more => None,
        ((best, _), (next, _)) if time(next) < time(best) => Some(Home { first: next, second: Some(best) }),
        ((best, _), (next, _)) => Some(Home { first: best, second: Some(next) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Option<usize> = None;

    #[test]
    fn the_less_loaded_of_the_two_greatest_is_home() {
        let weights = [0.1, 0.9, 0.8, 0.2];
        let found = home(&[1.0, 9.0, 5.0, 1.0], 10.0, &weights, NOBODY);
        assert_eq!(found, Some(Home { first: 2, second: Some(1) }));
    }

    #[test]
    fn who_is_not_near_is_nobodys_home() {
        let found = home(&[1.0, 99.0, 5.0, 1.0], 10.0, &[0.1, 0.9, 0.8, 0.2], NOBODY);
        assert_eq!(found, Some(Home { first: 3, second: Some(2) }));
    }

    #[test]
    fn equal_weights_tell_nothing() {
        assert_eq!(home(&[1.0, 1.0], 10.0, &[0.0, 0.0], NOBODY), None);
        assert_eq!(home(&[1.0], 10.0, &[0.7], NOBODY), None);
    }

    #[test]
    fn the_session_goes_first_while_it_is_near() {
        assert_eq!(home(&[1.0, 2.0], 10.0, &[0.9, 0.1], Some(1)).unwrap().first, 1);
        assert_eq!(home(&[1.0, 20.0, 3.0], 10.0, &[0.9, 0.1, 0.2], Some(1)).unwrap().first, 0);
    }
}
