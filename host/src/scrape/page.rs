//! What was found on one page of metrics.

use super::prometheus::Sample;
use super::wanted::Use;
use crate::policy::series::Series;
use crate::pool::Report;
use crate::types::Engine;

/// Adds up what several series of a name say, such as one for each data-parallel rank.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Total {
    sum: f64,
    count: u32,
}

impl Total {
    pub(super) fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.sum += value;
            self.count += 1;
        }
    }

    /// None when there was nothing to add.
    pub(super) fn sum(self) -> Option<f64> {
        (self.count > 0).then_some(self.sum)
    }

    pub(super) fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// The LoRA adapters of one series, and when it was written.
#[derive(Debug, Clone, Default)]
pub(super) struct Lora {
    pub(super) at: f64,
    pub(super) active: Vec<Box<str>>,
    pub(super) max: Option<f64>,
}

/// What was found on one page of metrics.
#[derive(Debug, Default)]
pub struct Page {
    pub(super) engine: Option<Engine>,
    pub(super) waiting: Total,
    pub(super) running: Total,
    pub(super) kv_usage: Total,
    /// The same under a name that newer versions have replaced.
    pub(super) kv_usage_old: Total,
    pub(super) preemptions: Total,
    pub(super) block_tokens: Option<f64>,
    pub(super) kv_blocks: Total,
    pub(super) started: Option<f64>,
    pub(super) lora: Option<Lora>,
    series: Vec<Total>,
}

impl Page {
    pub(super) fn of(series: usize) -> Self {
        Self { series: vec![Total::default(); series], ..Self::default() }
    }

    pub(super) fn take(&mut self, uses: &[Use], series: &[Series], sample: Sample<'_>) {
        for what in uses {
            match what {
                Use::Fixed(engine, take) => {
                    self.engine = Some(*engine);
                    take(self, sample);
                }
                Use::Started => self.started = Some(sample.value),
                Use::Series(position) => {
                    if let Some(total) = self.series.get_mut(*position)
                        && series.get(*position).is_some_and(|series| sample.labels.carry(&series.labels))
                    {
                        total.add(sample.value);
                    }
                }
            }
        }
    }

    /// The kind of engine whose names were found.
    #[must_use]
    pub fn engine(&self) -> Option<Engine> {
        self.engine
    }

    /// Puts what was found into a report, in the place of all that metrics say.
    pub fn fill(self, report: &mut Report) {
        report.waiting = self.waiting.sum().map(narrow);
        report.running = self.running.sum().map(narrow);
        let kv_usage = self.kv_usage.mean().or(self.kv_usage_old.mean());
        report.kv_usage = kv_usage.map(|usage| narrow(usage.clamp(0.0, 1.0)));
        report.preemptions = self.preemptions.sum().map(narrow);
        report.block_tokens = self.block_tokens.and_then(whole).and_then(|tokens| u32::try_from(tokens).ok());
        report.kv_blocks = self.kv_blocks.sum().and_then(whole);
        report.started = self.started;
        let lora = self.lora.unwrap_or_default();
        report.lora_max = lora.max.and_then(whole).and_then(|max| u32::try_from(max).ok());
        report.lora_active = lora.active;
        report.series = self.series.iter().map(|total| total.sum().map_or(f32::NAN, narrow)).collect();
    }
}

/// Columns are `f32`.
#[expect(clippy::cast_possible_truncation, reason = "columns are f32")]
pub(super) fn narrow(value: f64) -> f32 {
    value as f32
}

/// A count; none for what is no count above 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
fn whole(value: f64) -> Option<u64> {
    (1.0..9e15).contains(&value).then_some(value as u64)
}
