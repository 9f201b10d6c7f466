//! Candidates as they were at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use crate::policy::{ColumnId, EndpointView};
use crate::pool::Endpoint;
use crate::route::columns::Columns;
use crate::types::{EndpointId, Profile};

/// Candidates with the values of their columns; what happens to the endpoints afterwards does not show.
#[derive(Debug)]
pub struct Frozen {
    profile: Profile,
    endpoints: Arc<Vec<Arc<Endpoint>>>,
    columns: Columns,
}

impl Frozen {
    pub(in crate::route) fn new(
        profile: Profile,
        endpoints: Arc<Vec<Arc<Endpoint>>>,
        columns: Columns,
    ) -> Self {
        Self { profile, endpoints, columns }
    }

    /// The endpoints, by position.
    pub(super) fn endpoints(&self) -> &Arc<Vec<Arc<Endpoint>>> {
        &self.endpoints
    }

    /// The endpoint at a position.
    pub(super) fn at(&self, position: u32) -> Option<&Arc<Endpoint>> {
        self.endpoints.get(usize::try_from(position).ok()?)
    }

    /// The positions of endpoints, in their order.
    pub(super) fn positions(&self, endpoints: &[Arc<Endpoint>]) -> Vec<u32> {
        let known: HashMap<EndpointId, u32> =
            self.endpoints.iter().zip(0..).map(|(endpoint, position)| (endpoint.id, position)).collect();
        endpoints.iter().filter_map(|endpoint| known.get(&endpoint.id)).copied().collect()
    }

    /// Those of the candidates that are among `endpoints`, in that order.
    pub(super) fn subset(self: &Arc<Self>, endpoints: &Arc<Vec<Arc<Endpoint>>>) -> Arc<Self> {
        if Arc::ptr_eq(&self.endpoints, endpoints) {
            return Arc::clone(self);
        }
        let columns = self.columns.subset(&self.positions(endpoints));
        Arc::new(Self::new(self.profile, Arc::clone(endpoints), columns))
    }

    /// Bytes of the values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.columns.bytes()
    }
}

impl EndpointView for Frozen {
    fn len(&self) -> usize {
        self.endpoints.len()
    }

    fn profile(&self) -> Profile {
        self.profile
    }

    fn ids(&self) -> Vec<u32> {
        self.endpoints.iter().map(|endpoint| endpoint.id.0).collect()
    }

    fn keys(&self) -> Vec<u64> {
        self.endpoints.iter().map(|endpoint| endpoint.key.0).collect()
    }

    fn column(&self, column: ColumnId, missing: f32) -> Option<Vec<f32>> {
        let values = self.columns.get(column)?;
        Some(values.iter().map(|value| if value.is_nan() { missing } else { *value }).collect())
    }

    fn label(&self, position: usize, key: &str) -> Option<String> {
        self.endpoints.get(position)?.label(key).map(str::to_owned)
    }
}
