//! The default plugins inside the binary.
//!
//! The build embeds what `cargo xtask plugins` left in `target/plugins`; a build without them works and
//! says at start which command makes them.

include!(concat!(env!("OUT_DIR"), "/builtin.rs"));

/// The default plugins, in the order of the default chain.
pub const NAMES: [&str; 3] = ["fairness", "prefix-affinity", "pd-split"];

/// The bytes of a default plugin, if the build found them.
#[must_use]
pub fn bytes(name: &str) -> Option<&'static [u8]> {
    EMBEDDED.iter().find(|(embedded, _)| *embedded == name).map(|(_, bytes)| *bytes)
}

/// Default plugins that this build lacks.
#[must_use]
pub fn missing() -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| bytes(name).is_none()).collect()
}
