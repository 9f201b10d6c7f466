//! What an engine says of itself.
//!
//! The numbers that policies read in every request are copied into [`Numbers`]; the rest stays in the
//! [`Report`] behind one pointer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::atomic::AtomicF32;
use crate::clock::{MILLI, Nanos};
use crate::types::Engine;

/// One reading of an engine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// The kind of engine, once known.
    pub engine: Option<Engine>,
    /// When its metrics were read last; 0 never.
    pub at: Nanos,
    /// Requests that wait inside the engine.
    pub waiting: Option<f32>,
    /// Requests that run inside the engine.
    pub running: Option<f32>,
    /// Share of the KV cache in use, 0..=1.
    pub kv_usage: Option<f32>,
    /// Preemptions since it started.
    pub preemptions: Option<f32>,
    /// Tokens of one KV block.
    pub block_tokens: Option<u32>,
    /// Blocks of its KV cache.
    pub kv_blocks: Option<u64>,
    /// When its process started, seconds since 1970.
    pub started: Option<f64>,
    /// LoRA adapters that are loaded, sorted.
    pub lora_active: Vec<Box<str>>,
    /// LoRA adapters that it holds at most.
    pub lora_max: Option<u32>,
    /// Models that it lists, in its order; empty while not known.
    pub models: Arc<[Box<str>]>,
    /// Those of them that are adapters of another one.
    pub adapters: Arc<[Box<str>]>,
    /// The series that policies resolved, in the registry's order; NaN where there is none. It may be
    /// shorter than the registry's list for one interval after a policy resolved more.
    #[serde(skip)]
    pub series: Arc<[f32]>,
}

impl Report {
    /// Tokens that its KV cache holds.
    #[must_use]
    pub fn cache_tokens(&self) -> Option<u64> {
        Some(self.kv_blocks?.saturating_mul(u64::from(self.block_tokens?)))
    }
}

/// The numbers of the latest [`Report`], to be read without a lock. NaN where the engine does not say.
#[derive(Debug, Default)]
pub struct Numbers {
    at: AtomicU64,
    waiting: AtomicF32,
    running: AtomicF32,
    kv_usage: AtomicF32,
    preemptions: AtomicF32,
    kv_tokens: AtomicF32,
}

impl Numbers {
    /// Requests that wait inside the engine.
    #[must_use]
    pub fn waiting(&self) -> f32 {
        self.waiting.get()
    }

    /// Requests that run inside the engine.
    #[must_use]
    pub fn running(&self) -> f32 {
        self.running.get()
    }

    /// Share of the KV cache in use.
    #[must_use]
    pub fn kv_usage(&self) -> f32 {
        self.kv_usage.get()
    }

    /// Preemptions since the engine started.
    #[must_use]
    pub fn preemptions(&self) -> f32 {
        self.preemptions.get()
    }

    /// Tokens that the KV cache holds.
    #[must_use]
    pub fn kv_tokens(&self) -> f32 {
        self.kv_tokens.get()
    }

    /// Milliseconds since the metrics were read; NaN when they never were.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an age, not a count")]
    pub fn age_ms(&self, now: Nanos) -> f32 {
        match self.at.load(Ordering::Relaxed) {
            0 => f32::NAN,
            at => now.saturating_sub(at) as f32 / MILLI as f32,
        }
    }

    pub(super) fn publish(&self, report: &Report) {
        self.at.store(report.at, Ordering::Relaxed);
        self.waiting.set(report.waiting.unwrap_or(f32::NAN));
        self.running.set(report.running.unwrap_or(f32::NAN));
        self.kv_usage.set(report.kv_usage.unwrap_or(f32::NAN));
        self.preemptions.set(report.preemptions.unwrap_or(f32::NAN));
        #[expect(clippy::cast_precision_loss, reason = "a size, not a count")]
        self.kv_tokens.set(report.cache_tokens().map_or(f32::NAN, |tokens| tokens as f32));
    }
}
