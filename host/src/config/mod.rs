//! Configuration: from a TOML file and the command line to a [`Config`] in which nothing is optional
//! that need not be.
//!
//! [`keys`] is the one table of what may be written: it drives reading, defaults, bounds, the nearest
//! key in an error, `config schema` and the reference. A file is applied whole or refused with *all* of
//! its errors, each with file, line and key. Reading opens no socket and changes nothing.

mod build;
mod error;
pub mod keys;
mod load;
mod model;
mod print;
mod read;
mod supply;
#[cfg(test)]
mod tests;

pub(crate) use build::NAME_LENGTH;
pub(crate) use error::nearest;
pub use error::{ConfigError, ConfigErrors};
pub use load::{Beside, Flags, NextTo, beside, beside_text, from_file, from_flags, from_text};
pub use model::{
    AskForEvents, ChainConfig, ChainUse, Config, EndpointConfig, EngineChoice, Grants, Guardrails, Limits,
    Listen, Mode, PluginConfig, PoolConfig, QueueConfig, Scrape, TrialMode, Unlisted, Wasi, Watch, WatchMode,
};
pub use print::{print, schema};
pub use supply::{CompileConfig, SupplyConfig, TrustedKey};

/// The name of the chain and of the pool where none is named.
pub const DEFAULT: &str = "default";
