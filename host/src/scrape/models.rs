//! The answer of `/v1/models`.

use std::sync::Arc;

use serde::Deserialize;

use super::engines::owner;
use crate::types::Engine;

#[derive(Debug, Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    id: Box<str>,
    owned_by: Option<Box<str>>,
    /// The model that an adapter is for.
    parent: Option<Box<str>>,
}

/// What an endpoint serves.
pub(super) struct Models {
    /// In the order of the list, each once.
    pub(super) ids: Arc<[Box<str>]>,
    /// Those of them that are adapters.
    pub(super) adapters: Arc<[Box<str>]>,
    /// The engine, if it names itself there.
    pub(super) engine: Option<Engine>,
}

/// Reads the answer; none when it is no list of models.
pub(super) fn models(body: &[u8]) -> Option<Models> {
    let list: List = serde_json::from_slice(body).ok()?;
    let engine = list.data.iter().find_map(|model| owner(model.owned_by.as_deref()?));
    let mut ids: Vec<Box<str>> = Vec::with_capacity(list.data.len());
    let mut adapters = Vec::new();
    for model in list.data {
        if !ids.contains(&model.id) {
            if model.parent.is_some() {
                adapters.push(model.id.clone());
            }
            ids.push(model.id);
        }
    }
    Some(Models { ids: ids.into(), adapters: adapters.into(), engine })
}
