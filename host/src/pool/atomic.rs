//! A 32-bit float that threads share; NaN means that the number is not known.

use std::sync::atomic::{AtomicU32, Ordering};

/// Share of a new sample in a moving average: the last ten samples make up two thirds of it.
const NEWEST: f32 = 0.1;

/// Share by which a sample lifts a least value: it is forgotten within some ten thousand.
const LIFT: f32 = 1e-4;

#[derive(Debug)]
pub(super) struct AtomicF32(AtomicU32);

impl Default for AtomicF32 {
    fn default() -> Self {
        Self(AtomicU32::new(f32::NAN.to_bits()))
    }
}

impl AtomicF32 {
    pub(super) fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, value: f32) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// Takes a sample if it is less; any other one lifts the least a little, so that what was once is forgotten in the end.
    pub(super) fn least(&self, sample: f32) {
        if !sample.is_finite() {
            return;
        }
        let least = self.get();
        let after = if least.is_nan() { sample } else { (least + LIFT * (sample - least)).min(sample) };
        // Of two samples at once either may be lost.
        self.set(after);
    }

    /// Takes a sample into the moving average; the first one is the average. What is not finite does
    /// not count.
    pub(super) fn average(&self, sample: f32) {
        if !sample.is_finite() {
            return;
        }
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let average = f32::from_bits(before);
            let after = if average.is_nan() { sample } else { average + NEWEST * (sample - average) };
            match self.0.compare_exchange_weak(before, after.to_bits(), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_kept_and_forgotten_in_the_end() {
        let value = AtomicF32::default();
        value.least(f32::NAN);
        assert!(value.get().is_nan());
        for sample in [20.0, 10.0, 30.0] {
            value.least(sample);
        }
        assert!((value.get() - 10.0).abs() < 0.01);
        for _ in 0..100_000 {
            value.least(30.0);
        }
        assert!(value.get() > 29.0 && value.get() <= 30.0);
    }

    #[test]
    fn averages_move_towards_the_samples() {
        let value = AtomicF32::default();
        assert!(value.get().is_nan());
        value.average(f32::NAN);
        value.average(f32::INFINITY);
        assert!(value.get().is_nan());
        value.average(10.0);
        assert!((value.get() - 10.0).abs() < 1e-6);
        for _ in 0..100 {
            value.average(20.0);
        }
        assert!((value.get() - 20.0).abs() < 0.01);
    }
}
