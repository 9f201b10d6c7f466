//! `columns`, `log`, `clock`, `random`, `store` and `metrics`.

use super::{Guest, Phase};
use crate::plugin::bindings::sluicegate::policy as contract;
use crate::plugin::quota::{Dropped, Line, MAX_COLUMNS, MAX_LINES};
use crate::plugin::series::Noted;

/// Bytes of a log line that are kept.
const MAX_LINE: usize = 2_048;
/// Bytes of a column's name, or of a label's key or text. An unknown name is compared with every known one.
const MAX_NAME: usize = 256;

impl contract::columns::Host for Guest {
    fn resolve(&mut self, name: String) -> Result<u32, String> {
        if self.phase != Phase::Configuring {
            return Err("columns are resolved in `configure` only".into());
        }
        let (registry, quota) = (&self.shared.registry, &self.shared.quota);
        if name.len() > MAX_NAME {
            quota.count(Dropped::Column);
            return Err(format!("a column's name of {} bytes; up to {MAX_NAME} are read", name.len()));
        }
        let counted = registry.is_dynamic(&name);
        if counted && !quota.has_room_for_column(registry.known(&name)) {
            quota.count(Dropped::Column);
            return Err(format!(
                "`{name}` would be one column too many: a plugin may resolve {MAX_COLUMNS} of `label:` and \
                 `metric:` in the life of the process; name fewer of them in its configuration"
            ));
        }
        let id = registry.resolve(&name).map_err(|error| error.to_string())?;
        if counted {
            quota.take_column(id);
        }
        self.shared.resolved.lock().insert(id);
        Ok(id.0)
    }

    /// NaN, which no label equals, for a text that gets no number.
    fn intern(&mut self, key: String, text: String) -> f32 {
        let (registry, quota) = (&self.shared.registry, &self.shared.quota);
        // A number given outside `configure` would outlive the call that asked, once for every request.
        if self.phase != Phase::Configuring {
            return registry.interned(&key, &text).unwrap_or(f32::NAN);
        }
        if key.len() > MAX_NAME || text.len() > MAX_NAME || !quota.take_text(&key, &text) {
            quota.count(Dropped::Text);
            return f32::NAN;
        }
        registry.intern(&key, &text)
    }
}

impl contract::log::Host for Guest {
    fn write(&mut self, level: contract::log::Level, message: String) {
        let name = &*self.shared.name;
        match self.shared.quota.line(self.now) {
            Line::Write => {}
            Line::FirstDropped => {
                tracing::warn!(plugin = name, "more than {MAX_LINES} lines in a second; the rest is dropped");
                return;
            }
            Line::Dropped => return,
        }
        if message.len() > MAX_LINE {
            self.shared.quota.count(Dropped::LogText);
        }
        let text = one_line(&message);
        match level {
            contract::log::Level::Error => tracing::error!(plugin = name, "{text}"),
            contract::log::Level::Warn => tracing::warn!(plugin = name, "{text}"),
            contract::log::Level::Info => tracing::info!(plugin = name, "{text}"),
            contract::log::Level::Debug => tracing::debug!(plugin = name, "{text}"),
        }
    }
}

/// The beginning of a message, without what would end the line or steer a terminal: a guest must not be able to
/// write lines that look like the host's.
fn one_line(message: &str) -> String {
    let end = message.floor_char_boundary(MAX_LINE);
    let kept = message.get(..end).unwrap_or_default();
    kept.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
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

impl Guest {
    /// Counts a write that the store refused.
    fn stored<R>(&self, result: Result<R, String>) -> Result<R, String> {
        if result.is_err() {
            self.shared.quota.count(Dropped::StoreWrite);
        }
        result
    }

    /// Counts an update that was dropped.
    fn noted(&self, noted: Noted) {
        if noted == Noted::Dropped {
            self.shared.quota.count(Dropped::Series);
        }
    }
}

impl contract::store::Host for Guest {
    fn get(&mut self, key: String) -> Option<Vec<u8>> {
        self.shared.store.get(&key, self.now)
    }

    fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: Option<u32>) -> Result<(), String> {
        self.stored(self.shared.store.set(key, value, ttl_ms, self.now))
    }

    fn add(&mut self, key: String, by: i64, ttl_ms: Option<u32>) -> Result<i64, String> {
        self.stored(self.shared.store.add(key, by, ttl_ms, self.now))
    }

    fn swap(
        &mut self,
        key: String,
        expected: Option<Vec<u8>>,
        value: Option<Vec<u8>>,
        ttl_ms: Option<u32>,
    ) -> Result<bool, String> {
        self.stored(self.shared.store.swap(key, expected.as_deref(), value, ttl_ms, self.now))
    }
}

impl contract::metrics::Host for Guest {
    fn count(&mut self, name: String, labels: Vec<(String, String)>, by: u64) {
        self.noted(self.shared.series.count(name, labels, by));
    }

    fn gauge(&mut self, name: String, labels: Vec<(String, String)>, value: f64) {
        self.noted(self.shared.series.gauge(name, labels, value));
    }

    fn observe(&mut self, name: String, labels: Vec<(String, String)>, value: f64) {
        self.noted(self.shared.series.observe(name, labels, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_has_an_end() {
        assert_eq!(one_line("a\nb\u{1b}[31mc\td"), "a b [31mc\td");
        let long = "é".repeat(MAX_LINE);
        assert_eq!(one_line(&long).len(), MAX_LINE);
        assert!(one_line(&format!("x{long}")).len() < MAX_LINE);
    }
}
