//! Prefers endpoints with small values in one column: 1 / (1 + value), and never below a floor. Below 0 is 0.
//!
//! Written against the bindings alone, as in every other language here, and built for two targets.

wit_bindgen::generate!({ path: "../../../target/languages/wit", world: "scorer", generate_all });

use std::sync::OnceLock;

use exports::sluicegate::policy::{plugin, scorer};
use serde::Deserialize;
use sluicegate::policy::columns;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    column: String,
    floor: f32,
}

impl Default for Config {
    fn default() -> Self {
        Self { column: "load.requests".into(), floor: 0.0 }
    }
}

static CONFIGURED: OnceLock<(u32, f32)> = OnceLock::new();

struct LeastRequests;

impl plugin::Guest for LeastRequests {
    fn describe() -> plugin::Manifest {
        plugin::Manifest {
            name: "least-requests".into(),
            version: "1.0.0".into(),
            summary: "prefers small values of a column, in Rust".into(),
            default_weight: 1.0,
            config_schema: String::new(),
        }
    }

    fn configure(config: String) -> Result<(), String> {
        let config: Config = serde_json::from_str(&config).map_err(|error| error.to_string())?;
        let column = columns::resolve(&config.column)?;
        CONFIGURED.set((column, config.floor)).map_err(|_| "configured twice".into())
    }
}

impl scorer::Guest for LeastRequests {
    fn score(_request: &scorer::Request, endpoints: &scorer::Endpoints) -> Vec<f32> {
        let Some(&(column, floor)) = CONFIGURED.get() else { return Vec::new() };
        let values = endpoints.column(column, 0.0).into_iter();
        values.map(|value| (1.0 / (1.0 + value.max(0.0))).max(floor)).collect()
    }
}

export!(LeastRequests);
