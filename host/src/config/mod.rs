//! Configuration: from a TOML file and the command line to a [`Config`] in which nothing is optional
//! that need not be.
//!
//! [`keys`] is the one table of what may be written: it drives reading, defaults, bounds, the nearest
//! key in an error, `config schema` and the reference. A file is applied whole or refused with *all* of
//! its errors, each with file, line and key. Reading opens no socket and changes nothing.

mod build;
mod callers;
mod error;
mod key_hash;
pub mod keys;
mod load;
mod model;
mod network;
mod print;
mod queue;
mod read;
mod secret;
mod supply;
#[cfg(test)]
mod tests;

pub(crate) use build::NAME_LENGTH;
pub use callers::{AdminToken, Callers, Objective, Right, TenantConfig};
pub(crate) use error::nearest;
pub use error::{ConfigError, ConfigErrors};
pub use key_hash::KeyHash;
pub use load::{Beside, Flags, NextTo, beside, beside_text, from_file, from_flags, from_text};
pub use model::{
    AskForEvents, BandConfig, ChainConfig, ChainUse, Config, DialectChoice, EndpointConfig, EngineChoice,
    EnginePriority, Forwarded, Grants, Guardrails, HealthConfig, HttpVersion, Limits, Listen, Mode,
    PluginConfig, PoolConfig, PoolTls, QueueBounds, QueueConfig, Resolve, Scrape, TlsConfig, Traceparent,
    TrialMode, Unlisted, Wasi, Watch, WatchMode,
};
pub use network::Network;
pub use print::{print, schema};
pub use secret::{SecretError, SecretSource};
pub use supply::{CompileConfig, SupplyConfig, TrustedKey};

/// The name of the chain and of the pool where none is named.
pub const DEFAULT: &str = "default";
