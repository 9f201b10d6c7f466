//! One trait a stage. See `wit/policy.wit` for what each answer means.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Budget, EndpointView, Event, Flows, Request};

/// What a stage is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The request to judge.
    pub request: &'a Arc<Request>,
    /// The candidates; position i is the same candidate throughout the call.
    pub endpoints: &'a Arc<dyn EndpointView>,
    /// The time that this request's policies may still use together.
    pub budget: &'a Budget,
}

/// A stage that is asked about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// [`Admission`]
    Admission,
    /// [`FlowControl`]
    FlowControl,
    /// [`Filter`]
    Filter,
    /// [`Scorer`]
    Scorer,
    /// [`Picker`]
    Picker,
    /// [`Disaggregation`]
    Disaggregation,
}

impl Stage {
    /// Every stage, in the order in which a request meets them.
    pub const ALL: [Self; 6] =
        [Self::Admission, Self::FlowControl, Self::Filter, Self::Scorer, Self::Picker, Self::Disaggregation];

    /// The name of the stage's interface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::FlowControl => "flow-control",
            Self::Filter => "filter",
            Self::Scorer => "scorer",
            Self::Picker => "picker",
            Self::Disaggregation => "disaggregation",
        }
    }
}

/// Why an answer cannot be used. [`Reason::as_str`] is the metric label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The guest trapped (a panic, an out-of-bounds access, …).
    Trap,
    /// The guest used up its deadline.
    Deadline,
    /// The guest ran into its memory cap.
    Memory,
    /// A list of another length than the candidates.
    WrongLength,
    /// NaN or an infinity where a number is needed.
    NotFinite,
    /// A position that no candidate has.
    OutOfRange,
    /// A position named twice.
    Repeated,
    /// A value outside what the contract allows, such as a status of 200 for a rejection.
    Invalid,
    /// Not asked: the plugin is set aside after repeated failures.
    SetAside,
    /// Not asked: the policies of this request have used up their time together.
    BudgetSpent,
    /// Not asked: no instance could be made.
    NoInstance,
    /// Not asked: all instances are at work, and making another would keep the request waiting.
    Warming,
}

impl Reason {
    /// Every reason, for metrics that must exist before they count.
    pub const ALL: [Self; 12] = [
        Self::Trap,
        Self::Deadline,
        Self::Memory,
        Self::WrongLength,
        Self::NotFinite,
        Self::OutOfRange,
        Self::Repeated,
        Self::Invalid,
        Self::SetAside,
        Self::BudgetSpent,
        Self::NoInstance,
        Self::Warming,
    ];

    /// The metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::WrongLength => "wrong_length",
            Self::NotFinite => "not_finite",
            Self::OutOfRange => "out_of_range",
            Self::Repeated => "repeated",
            Self::Invalid => "invalid",
            Self::SetAside => "set_aside",
            Self::BudgetSpent => "budget_spent",
            Self::NoInstance => "no_instance",
            Self::Warming => "warming",
        }
    }

    /// Whether the plugin itself failed, as against not having been asked.
    #[must_use]
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::SetAside | Self::BudgetSpent | Self::Warming)
    }
}

/// A call without a usable answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}: {message}", reason.as_str())]
pub struct CallError {
    /// The kind of failure.
    pub reason: Reason,
    /// For the log and the explanation.
    pub message: Box<str>,
}

impl CallError {
    /// An error of this kind. What is long of the message is cut: it may be a guest's own words.
    pub fn new(reason: Reason, message: impl Into<Box<str>>) -> Self {
        /// Bytes that are kept.
        const MAX: usize = 2_048;
        let message: Box<str> = message.into();
        let message = match message.get(..message.floor_char_boundary(MAX)) {
            Some(kept) if kept.len() < message.len() => format!("{kept}…").into(),
            _ => message,
        };
        Self { reason, message }
    }
}

/// The answer of [`Admission::admit`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The request is taken.
    Accept,
    /// The request is refused.
    Reject(Rejection),
}

/// A refusal by an admission policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejection {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Shown to the client.
    pub reason: String,
    /// Milliseconds after which a retry may succeed.
    pub retry_after_ms: Option<u32>,
}

/// Whether a request is taken at all.
pub trait Admission: Send + Sync {
    /// Judges one request.
    ///
    /// # Errors
    /// A [`CallError`] when there is no usable answer; so for every stage.
    fn admit(&self, call: Call<'_>) -> Result<Verdict, CallError>;

    /// Hears that its answer to this call could not be used; for whoever keeps failed calls. So for every stage.
    fn unusable(&self, _call: Call<'_>, _error: &CallError) {}
}

/// Which candidates may serve a request.
pub trait Filter: Send + Sync {
    /// Positions to keep.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn keep(&self, call: Call<'_>) -> Result<Vec<u32>, CallError>;

    /// See [`Admission::unusable`].
    fn unusable(&self, _call: Call<'_>, _error: &CallError) {}
}

/// How good each candidate is.
pub trait Scorer: Send + Sync {
    /// One score in 0..=1 a candidate.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn score(&self, call: Call<'_>) -> Result<Vec<f32>, CallError>;

    /// See [`Admission::unusable`].
    fn unusable(&self, _call: Call<'_>, _error: &CallError) {}
}

/// Which scored candidate is taken.
pub trait Picker: Send + Sync {
    /// Up to `count` positions, best first.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn pick(&self, call: Call<'_>, scores: &[f32], count: u32) -> Result<Vec<u32>, CallError>;

    /// See [`Admission::unusable`].
    fn unusable(&self, _call: Call<'_>, _scores: &[f32], _count: u32, _error: &CallError) {}
}

/// What a leg does before decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LegStage {
    /// Encodes images, audio or video.
    Encode,
    /// Prefills the prompt.
    Prefill,
}

impl LegStage {
    /// Its name in metrics and explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Encode => "encode",
            Self::Prefill => "prefill",
        }
    }
}

/// Work that is done at another endpoint first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leg {
    /// What is done.
    pub stage: LegStage,
    /// Positions, best first; empty leaves the choice to that stage's profile.
    pub candidates: Vec<u32>,
}

/// Whether other endpoints work on a request before the one that decodes.
pub trait Disaggregation: Send + Sync {
    /// Legs to run before decode, none for aggregated. `decode` is a position in the call's endpoints.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn split(&self, call: Call<'_>, decode: u32) -> Result<Vec<Leg>, CallError>;

    /// See [`Admission::unusable`].
    fn unusable(&self, _call: Call<'_>, _decode: u32, _error: &CallError) {}
}

/// Where a request waits if it has to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The queue of its own kind.
    pub flow: Box<str>,
    /// Higher is served first.
    pub band: i32,
    /// Share against the other flows of the band; above 0.
    pub weight: f32,
    /// In tokens.
    pub cost: u32,
    /// Order within the flow, higher first.
    pub rank: f64,
    /// May go at once while nobody waits in its band or above and saturation is below this.
    pub ceiling: f32,
    /// Milliseconds that it may wait; none leaves it to the host's own limit.
    pub ttl_ms: Option<u32>,
    /// Tokens of KV cache that its session will hold; it waits until the pool's caches have room for them. None is not
    /// counted.
    #[serde(default)]
    pub kv_tokens: Option<u32>,
}

impl Placement {
    /// The one flow, in band 0, that is served first come first served.
    #[must_use]
    pub fn of(cost: u32) -> Self {
        Self {
            flow: Box::default(),
            band: 0,
            weight: 1.0,
            cost,
            rank: 0.0,
            ceiling: 1.0,
            ttl_ms: None,
            kv_tokens: None,
        }
    }
}

/// When a request goes: the part that any instance may answer.
pub trait FlowControl: Send + Sync {
    /// Places one request.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn place(&self, call: Call<'_>) -> Result<Placement, CallError>;

    /// See [`Admission::unusable`].
    fn unusable(&self, _call: Call<'_>, _error: &CallError) {}
}

/// The one instance of a plugin that hears the events of a pool, in order, and so may keep state.
pub trait Own: Send {
    /// Up to `count` positions of flows to serve next.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn select(
        &mut self,
        flows: &Arc<Flows>,
        endpoints: &Arc<dyn EndpointView>,
        count: u32,
    ) -> Result<Vec<u32>, CallError>;

    /// 0 idle, 1 full.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn saturation(&mut self, endpoints: &Arc<dyn EndpointView>) -> Result<f32, CallError>;

    /// Takes a batch of events; nothing to do for a plugin that does not export `observer`.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn observe(&mut self, events: &Arc<[Event]>) -> Result<(), CallError>;

    /// The state to carry to another version; none when the plugin keeps none.
    ///
    /// # Errors
    /// See [`Admission::admit`].
    fn save(&mut self) -> Result<Option<Vec<u8>>, CallError>;

    /// Takes a saved state.
    ///
    /// # Errors
    /// See [`Admission::admit`]; the instance then starts clean.
    fn restore(&mut self, state: &[u8]) -> Result<(), CallError>;
}

/// Makes the [`Own`] instance of a plugin for one pool.
pub trait OwnFactory: Send + Sync {
    /// A fresh instance.
    ///
    /// # Errors
    /// [`Reason::NoInstance`] when it cannot be made.
    fn own(&self) -> Result<Box<dyn Own>, CallError>;
}
