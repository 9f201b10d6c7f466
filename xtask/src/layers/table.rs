//! The layers of the host's modules, lowest first.

const LAYERS: &[&[&str]] = &[
    &["types", "clock", "files"],
    &["audit", "config", "api", "pool", "prefix", "tokens", "snapshot"],
    &["policy"],
    &["route", "flow", "disagg", "tenants"],
    &["net"],
    &["plugin", "discovery", "scrape", "kv_events", "telemetry"],
    &["proxy", "admin", "calibrate"],
    // All of them wire parts together; each wires what the one before offers.
    &["app"],
    &["cli"],
    &["main", "lib"],
];

/// The highest layer of pure logic.
const PURE: usize = 3;

/// Crates that pure logic never names, by the beginning of their names.
pub(super) const RUNTIMES: &[&str] = &["tokio", "hyper", "wasmtime"];

/// The layer of a module.
pub(super) fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// Whether a layer is pure logic.
pub(super) fn pure(layer: usize) -> bool {
    layer <= PURE
}
