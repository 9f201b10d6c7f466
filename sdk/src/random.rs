//! Numbers that cannot be foreseen, except in a replay: the host seeds them before each call.

/// 64 random bits.
#[must_use]
pub fn next_u64() -> u64 {
    backend::next()
}

/// A number in 0..1.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "24 bits fit an f32 exactly")]
pub fn unit() -> f32 {
    (next_u64() >> 40) as f32 / (1_u32 << 24) as f32
}

/// A number below `bound`, or 0 when that is 0.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the product shifted by 64 is below the bound")]
pub fn below(bound: usize) -> usize {
    ((u128::from(next_u64()) * bound as u128) >> 64) as usize
}

#[cfg(target_arch = "wasm32")]
use crate::wasm::imports::random as backend;

#[cfg(not(target_arch = "wasm32"))]
mod backend {
    pub(super) fn next() -> u64 {
        crate::fake::with(|host| host.random())
    }
}
