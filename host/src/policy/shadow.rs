//! A plugin that is asked about live traffic and not heard.
//!
//! It stands beside a chain, not in it: nothing that it answers reaches a request. What it would have changed is
//! counted in its [`ShadowStats`].

use std::sync::Arc;

use super::{
    Admission, Disaggregation, Filter, FlowControl, OwnFactory, Picker, Plugin, Scorer, ShadowStats,
};

/// The stages that a plugin exports, as they are asked.
#[derive(Clone, Default)]
pub struct Stages {
    /// Whether a request is taken.
    pub admission: Option<Arc<dyn Admission>>,
    /// Which candidates may serve it.
    pub filter: Option<Arc<dyn Filter>>,
    /// How good each is.
    pub scorer: Option<Arc<dyn Scorer>>,
    /// Which is taken.
    pub picker: Option<Arc<dyn Picker>>,
    /// Whether others work on it first.
    pub disaggregation: Option<Arc<dyn Disaggregation>>,
    /// Where it waits.
    pub flow: Option<Arc<dyn FlowControl>>,
    /// Its own instances, when it observes or controls flow.
    pub own: Option<Arc<dyn OwnFactory>>,
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages")
            .field("admission", &self.admission.is_some())
            .field("filter", &self.filter.is_some())
            .field("scorer", &self.scorer.is_some())
            .field("picker", &self.picker.is_some())
            .field("disaggregation", &self.disaggregation.is_some())
            .field("flow", &self.flow.is_some())
            .field("own", &self.own.is_some())
            .finish()
    }
}

/// A plugin that is asked about live traffic and not heard.
#[derive(Debug)]
pub struct Shadow {
    /// The plugin. It would replace the one of its name in the chain, or join it where there is none.
    pub plugin: Arc<Plugin>,
    /// The factor that its scores would have.
    pub weight: f32,
    /// How it is asked.
    pub stages: Stages,
    /// What came of it.
    pub stats: Arc<ShadowStats>,
}
