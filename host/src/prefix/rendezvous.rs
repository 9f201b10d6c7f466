//! Rendezvous hashing: every endpoint has a weight for every prompt, and the greatest wins.
//!
//! Replicas that do not talk agree, and an endpoint that comes or goes moves only its own share.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::types::EndpointKey;

/// The weight of an endpoint for a hash, evenly spread over `0.0..1.0`.
#[must_use]
pub fn weight(key: EndpointKey, hash: u64) -> f32 {
    let mixed = xxh3_64_with_seed(&hash.to_le_bytes(), key.0);
    // 24 bits are all that an f32 holds without rounding up to one.
    #[allow(clippy::cast_precision_loss, reason = "24 bits are exact")]
    let weight = (mixed >> 40) as f32 / 16_777_216.0;
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(keys: &[EndpointKey], hash: u64) -> usize {
        (0..keys.len()).max_by(|a, b| weight(keys[*a], hash).total_cmp(&weight(keys[*b], hash))).unwrap()
    }

    #[test]
    fn shares_are_even_and_stay_when_an_endpoint_goes() {
        let keys: Vec<_> = (0..8).map(|n| EndpointKey::of(&format!("10.0.0.{n}:8000"))).collect();
        let mut wins = [0_u32; 8];
        for hash in 0..8_000_u64 {
            let hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let won = winner(&keys, hash);
            wins[won] += 1;
            let without = winner(&keys[..7], hash);
            assert!(won == 7 || won == without);
            assert!((0.0..1.0).contains(&weight(keys[0], hash)));
        }
        assert!(wins.iter().all(|wins| (850..1150).contains(wins)), "{wins:?}");
    }
}
