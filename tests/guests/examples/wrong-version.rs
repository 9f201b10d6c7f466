//! A scorer of a track of the contract that no host has: `sluicegate:policy@0.9.0`.

wit_bindgen::generate!({
    world: "wrong-version",
    path: "wit/wrong-version.wit",
    generate_all,
});

use exports::sluicegate::policy::{plugin, scorer};
use sluicegate::policy::view::{Endpoints, Request};

struct WrongVersion;

impl plugin::Guest for WrongVersion {
    fn describe() -> plugin::Manifest {
        plugin::Manifest {
            name: "wrong-version".into(),
            version: "1.0.0".into(),
            summary: "is of another track".into(),
            default_weight: 1.0,
            config_schema: String::new(),
        }
    }

    fn configure(_config: String) -> Result<(), String> {
        Ok(())
    }
}

impl scorer::Guest for WrongVersion {
    fn score(_request: &Request, endpoints: &Endpoints) -> Vec<f32> {
        vec![1.0; endpoints.len() as usize]
    }
}

export!(WrongVersion);
