//! What every policy has.

use crate::{Columns, Error};

/// A policy's description of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// For people; the file's name is the identity.
    pub name: String,
    /// The policy's own version.
    pub version: String,
    /// One line on what it does.
    pub summary: String,
    /// Weight of its scores when the operator sets none.
    pub default_weight: f32,
    /// JSON Schema of the configuration; empty for none.
    pub config_schema: String,
}

impl Manifest {
    /// A description with weight 1 and no configuration.
    #[must_use]
    pub fn new(name: &str, version: &str, summary: &str) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            summary: summary.into(),
            default_weight: 1.0,
            config_schema: String::new(),
        }
    }

    /// Sets the JSON Schema of the configuration, such as [`Settings::schema`](crate::config::Settings::schema).
    #[must_use]
    pub fn with_schema(mut self, schema: impl Into<String>) -> Self {
        self.config_schema = schema.into();
        self
    }

    /// Sets the weight of its scores when the operator sets none.
    #[must_use]
    pub const fn with_weight(mut self, weight: f32) -> Self {
        self.default_weight = weight;
        self
    }
}

/// What every policy has: a description, and a way to become configured.
pub trait Policy: Sized + 'static {
    /// Describes the policy. Called once when the file is loaded.
    fn manifest() -> Manifest;

    /// Makes an instance. `json` is the operator's configuration, `{}` or empty where there is none; columns
    /// are resolved here and nowhere else.
    ///
    /// # Errors
    /// An error refuses the file, and its text is what the operator reads.
    fn configure(json: &str, columns: &mut Columns) -> Result<Self, Error>;
}
