//! Series of a plugin's own, exported beside the host's as `sluicegate_plugin_NAME`. Bounded in series: what
//! goes over the bound is dropped and counted.

/// Names and values of a series' labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// Adds to a counter.
pub fn count(name: &str, labels: Labels<'_>, by: u64) {
    backend::count(name, &owned(labels), by);
}

/// Sets a gauge.
pub fn gauge(name: &str, labels: Labels<'_>, value: f64) {
    backend::gauge(name, &owned(labels), value);
}

/// Adds one observation; exported as a count and a sum.
pub fn observe(name: &str, labels: Labels<'_>, value: f64) {
    backend::observe(name, &owned(labels), value);
}

fn owned(labels: Labels<'_>) -> Vec<(String, String)> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[cfg(target_arch = "wasm32")]
use crate::wasm::imports::metrics as backend;

#[cfg(not(target_arch = "wasm32"))]
#[expect(clippy::cast_precision_loss, reason = "a fake counts no further than f64 can")]
mod backend {
    use crate::fake::with;

    type Labels = [(String, String)];

    pub(super) fn count(name: &str, labels: &Labels, by: u64) {
        with(|host| *host.metric(name, labels) += by as f64);
    }

    pub(super) fn gauge(name: &str, labels: &Labels, value: f64) {
        with(|host| *host.metric(name, labels) = value);
    }

    pub(super) fn observe(name: &str, labels: &Labels, value: f64) {
        with(|host| *host.metric(name, labels) += value);
    }
}
