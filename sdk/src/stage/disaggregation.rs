//! Whether other endpoints work on a request before the one that decodes.

use crate::{EndpointsView, Policy, RequestView};

/// What a leg does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Encodes images, sound and the like.
    Encode,
    /// Computes the prompt.
    Prefill,
}

impl Stage {
    /// The number that stands for it in the contract.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Encode => 0,
            Self::Prefill => 1,
        }
    }
}

/// Work that is done elsewhere first.
#[derive(Debug, Clone, PartialEq)]
pub struct Leg {
    /// What it does.
    pub stage: Stage,
    /// Positions, best first; empty leaves the choice to that stage's profile.
    pub candidates: Vec<u32>,
    /// Room to grow; a host ignores what it does not know.
    pub extra: Vec<(String, f32)>,
}

impl Leg {
    /// A leg that prefills at the first of these candidates that takes it.
    #[must_use]
    pub const fn prefill(candidates: Vec<u32>) -> Self {
        Self { stage: Stage::Prefill, candidates, extra: Vec::new() }
    }
}

/// Whether other endpoints work on a request before the one that decodes. On any instance.
pub trait Disaggregation: Policy {
    /// Legs to run before decode; none serves the request at the decode endpoint alone. `endpoints` holds
    /// all healthy candidates of the pool, `decode` is the position picked.
    fn split(&self, request: &dyn RequestView, endpoints: &dyn EndpointsView, decode: usize) -> Vec<Leg>;
}
