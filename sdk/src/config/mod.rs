//! Configurations that are written once: fields, defaults, limits and JSON Schema of one declaration.
//!
//! ```
//! use sluicegate_sdk::config::Settings as _;
//!
//! sluicegate_sdk::config! {
//!     /// How the policy weighs.
//!     pub struct Config {
//!         /// Milliseconds after which a measurement is stale.
//!         pub stale_after_ms: f32 = 5_000.0, in 0.0..=1e9;
//!         /// Whether sessions stay where they were.
//!         pub sticky: bool = true;
//!     }
//! }
//!
//! assert_eq!(Config::parse("").unwrap(), Config::default());
//! assert_eq!(Config::parse(r#"{"sticky": false}"#).unwrap().sticky, false);
//! let error = Config::parse(r#"{"stale_after": 1}"#).unwrap_err();
//! assert_eq!(error.to_string(), "unknown key `stale_after`; the nearest known key is `stale_after_ms`");
//! assert!(Config::schema().contains("Milliseconds after which"));
//! ```

mod declare;
mod nearest;
mod read;
mod text;
mod value;

pub use nearest::nearest;
#[doc(hidden)]
pub use read::property as __property;
pub use read::{ConfigError, Fields, Settings};
pub use value::{Limits, Value};

#[doc(hidden)]
pub use serde_json::Value as __Json;
#[doc(hidden)]
pub use text::shown as __shown;
