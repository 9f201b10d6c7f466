//! How the endpoints of a pool are judged.

use std::time::Duration;

use serde::Serialize;

use super::millis;

/// When an endpoint is out, and how it comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthConfig {
    /// Path that must answer well; none: what is answered when it is asked for its metrics.
    pub path: Option<Box<str>>,
    /// Time between two questions to it.
    #[serde(rename = "interval_ms", serialize_with = "millis")]
    pub interval: Duration,
    /// Failures in a row that eject an endpoint; 0 ejects none.
    pub eject_after: u32,
    /// Time of a first ejection.
    #[serde(rename = "eject_ms", serialize_with = "millis")]
    pub eject: Duration,
    /// Longest time of an ejection.
    #[serde(rename = "max_eject_ms", serialize_with = "millis")]
    pub max_eject: Duration,
    /// Share of the endpoints that may be ejected at a time.
    pub max_ejected_percent: u32,
    /// Time in which an endpoint that comes back gets its whole share again.
    #[serde(rename = "slow_start_ms", serialize_with = "millis")]
    pub slow_start: Duration,
}
