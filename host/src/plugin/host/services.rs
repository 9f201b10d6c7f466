//! `columns`, `log`, `clock`, `random`, `store` and `metrics`.

use super::{Guest, Phase};
use crate::clock::SECOND;
use crate::plugin::bindings::sluicegate::policy as contract;

/// Bytes of a log line that are kept.
const MAX_LINE: usize = 2_048;
/// Lines a second and instance; what is over is dropped, with one line that says so.
const MAX_LINES: u32 = 50;

impl contract::columns::Host for Guest {
    fn resolve(&mut self, name: String) -> Result<u32, String> {
        if self.phase != Phase::Configuring {
            return Err("columns are resolved in `configure` only".into());
        }
        let id = self.shared.registry.resolve(&name).map_err(|error| error.to_string())?;
        self.shared.resolved.lock().insert(id);
        Ok(id.0)
    }

    fn intern(&mut self, key: String, text: String) -> f32 {
        self.shared.registry.intern(&key, &text)
    }
}

impl contract::log::Host for Guest {
    fn write(&mut self, level: contract::log::Level, message: String) {
        let (since, lines) = &mut self.log_window;
        if self.now.saturating_sub(*since) > SECOND {
            (*since, *lines) = (self.now, 0);
        }
        *lines += 1;
        if *lines > MAX_LINES {
            if *lines == MAX_LINES + 1 {
                tracing::warn!(plugin = %self.shared.name, "more than {MAX_LINES} lines a second; the rest is dropped");
            }
            return;
        }
        let end =
            (0..=MAX_LINE.min(message.len())).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        let text = message.get(..end).unwrap_or_default();
        match level {
            contract::log::Level::Error => tracing::error!(plugin = %self.shared.name, "{text}"),
            contract::log::Level::Warn => tracing::warn!(plugin = %self.shared.name, "{text}"),
            contract::log::Level::Info => tracing::info!(plugin = %self.shared.name, "{text}"),
            contract::log::Level::Debug => tracing::debug!(plugin = %self.shared.name, "{text}"),
        }
    }
}

impl contract::clock::Host for Guest {
    fn now(&mut self) -> u64 {
        self.now_ms()
    }
}

impl contract::random::Host for Guest {
    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl contract::store::Host for Guest {
    fn get(&mut self, key: String) -> Option<Vec<u8>> {
        self.shared.store.get(&key, self.now)
    }

    fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: Option<u32>) -> Result<(), String> {
        self.shared.store.set(key, value, ttl_ms, self.now)
    }

    fn add(&mut self, key: String, by: i64, ttl_ms: Option<u32>) -> Result<i64, String> {
        self.shared.store.add(key, by, ttl_ms, self.now)
    }

    fn swap(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        ttl_ms: Option<u32>,
    ) -> Result<bool, String> {
        self.shared.store.swap(key, expected.as_deref(), value, ttl_ms, self.now)
    }
}

impl contract::metrics::Host for Guest {
    fn count(&mut self, name: String, labels: Vec<(String, String)>, by: u64) {
        self.shared.series.count(name, labels, by);
    }

    fn gauge(&mut self, name: String, labels: Vec<(String, String)>, value: f64) {
        self.shared.series.gauge(name, labels, value);
    }

    fn observe(&mut self, name: String, labels: Vec<(String, String)>, value: f64) {
        self.shared.series.observe(name, labels, value);
    }
}
