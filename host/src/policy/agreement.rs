//! What a shadow would have changed, in numbers.
//!
//! The counters are written by the one thread that asks shadows and read by whoever looks, so they are relaxed
//! atomics; means are kept as sums, so that those of several chains can be added up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{Placement, Stage};
use crate::clock::Nanos;

/// Flows whose last ranks are remembered. Beyond them the memory starts anew, and the next request of each flow has
/// nothing to be ordered against.
const MAX_FLOWS: usize = 256;
/// Flows of an order that are shown.
const SHOWN: usize = 8;

/// An answer that is compared with what the request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Compared {
    /// The same verdict, with the same status.
    Admission,
    /// The same flow and band, and the same order against the flow's request before.
    Place,
    /// The same candidates kept.
    Filter,
    /// The same endpoint is the best by the weighted sums.
    Scorer,
    /// The same endpoint first.
    Picker,
    /// The same legs, each with the same endpoint first.
    Disaggregation,
    /// The same flow to be served next.
    Select,
}

impl Compared {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Admission,
        Self::Place,
        Self::Filter,
        Self::Scorer,
        Self::Picker,
        Self::Disaggregation,
        Self::Select,
    ];

    /// The label in metrics and the admin API: the stage's name, and `select` for the second half of flow control.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Select => "select",
            other => other.stage().as_str(),
        }
    }

    /// The stage that was asked.
    #[must_use]
    pub fn stage(self) -> Stage {
        match self {
            Self::Admission => Stage::Admission,
            Self::Place | Self::Select => Stage::FlowControl,
            Self::Filter => Stage::Filter,
            Self::Scorer => Stage::Scorer,
            Self::Picker => Stage::Picker,
            Self::Disaggregation => Stage::Disaggregation,
        }
    }
}

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Nothing would have changed.
    Agree,
    /// Something would have.
    Differ,
    /// The shadow gave no usable answer.
    Failed,
}

impl Agreement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Agree, Self::Differ, Self::Failed];

    /// The label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agree => "agree",
            Self::Differ => "differ",
            Self::Failed => "failed",
        }
    }

    /// From whether two answers are the same.
    #[must_use]
    pub fn of(same: bool) -> Self {
        if same { Self::Agree } else { Self::Differ }
    }
}

/// A sum and how many numbers are in it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    /// The mean; none of nothing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    pub fn value(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The order of flows in one round of dispatching, as it was and as the shadow would have had it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    /// By the version in force.
    pub actual: Vec<Box<str>>,
    /// By the shadow.
    pub shadow: Vec<Box<str>>,
}

impl Orders {
    /// The first few of each.
    #[must_use]
    pub fn of<'a>(actual: impl Iterator<Item = &'a str>, shadow: impl Iterator<Item = &'a str>) -> Self {
        Self {
            actual: actual.take(SHOWN).map(Box::from).collect(),
            shadow: shadow.take(SHOWN).map(Box::from).collect(),
        }
    }
}

#[derive(Debug, Default)]
struct Means {
    correlation: Mean,
    saturation: Mean,
}

/// Flow and band, as the version in force has them, to its last rank and the shadow's.
type Ranks = HashMap<(Box<str>, i32), (f64, f64)>;

/// What one shadow would have changed so far.
#[derive(Debug, Default)]
pub struct ShadowStats {
    requests: AtomicU64,
    dropped: AtomicU64,
    gaps: AtomicU64,
    comparisons: [[AtomicU64; Agreement::ALL.len()]; Compared::ALL.len()],
    constant: AtomicU64,
    cpu: AtomicU64,
    active_cpu: AtomicU64,
    means: Mutex<Means>,
    ranks: Mutex<Ranks>,
    orders: Mutex<Orders>,
}

impl ShadowStats {
    /// A request was judged: CPU time that the shadow used, and the version in force for the same request.
    pub fn judged(&self, shadow: Nanos, active: Nanos) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.cpu.fetch_add(shadow, Ordering::Relaxed);
        self.active_cpu.fetch_add(active, Ordering::Relaxed);
    }

    /// A request was not judged, because too many waited for it.
    pub fn dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Events or a round of dispatching were not heard, because too many waited: what its own instance knows of the
    /// pool has a gap.
    pub fn gap(&self) {
        self.gaps.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a comparison.
    pub fn note(&self, compared: Compared, agreement: Agreement) {
        let of_stage = self.comparisons.get(compared as usize);
        if let Some(count) = of_stage.and_then(|counts| counts.get(agreement as usize)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes how alike the scores of one request were, -1..=1; none where one side's were all equal.
    pub fn correlated(&self, correlation: Option<f64>) {
        match correlation {
            Some(value) => self.means.lock().correlation.add(value),
            None => {
                self.constant.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Notes the saturation that the version in force gave and the shadow's.
    pub fn saturations(&self, active: f32, shadow: f32) {
        self.means.lock().saturation.add(f64::from((active - shadow).abs()));
    }

    /// Notes two orders of flows.
    pub fn ordered(&self, orders: Orders) {
        *self.orders.lock() = orders;
    }

    /// Whether two placements of a request mean the same: flow, band, and the order against the request before it in
    /// the flow. Ranks themselves are on a scale of each policy's own.
    #[must_use]
    pub fn same_place(&self, active: &Placement, shadow: &Placement) -> Agreement {
        let mut ranks = self.ranks.lock();
        if ranks.len() >= MAX_FLOWS {
            ranks.clear();
        }
        let now = (active.rank, shadow.rank);
        let before = ranks.insert((active.flow.clone(), active.band), now).unwrap_or(now);
        let same_order = now.0.total_cmp(&before.0) == now.1.total_cmp(&before.1);
        Agreement::of(active.flow == shadow.flow && active.band == shadow.band && same_order)
    }

    /// The numbers at this moment.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let means = self.means.lock();
        Counts {
            requests: read(&self.requests),
            dropped: read(&self.dropped),
            gaps: read(&self.gaps),
            comparisons: std::array::from_fn(|compared| {
                let counts = self.comparisons.get(compared);
                std::array::from_fn(|n| counts.and_then(|counts| counts.get(n)).map_or(0, read))
            }),
            correlation: means.correlation,
            constant: read(&self.constant),
            saturation: means.saturation,
            cpu: read(&self.cpu),
            active_cpu: read(&self.active_cpu),
            orders: self.orders.lock().clone(),
        }
    }
}

/// [`ShadowStats`] at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Requests judged.
    pub requests: u64,
    /// Requests not judged, because too many waited.
    pub dropped: u64,
    /// Events or rounds of dispatching not heard.
    pub gaps: u64,
    comparisons: [[u64; Agreement::ALL.len()]; Compared::ALL.len()],
    /// Of the scores with those of the version in force, over all judgements where neither were all equal.
    pub correlation: Mean,
    /// Judgements where one side's scores were all equal, so that nothing can be said.
    pub constant: u64,
    /// Distance between the two saturations.
    pub saturation: Mean,
    /// CPU time of the shadow's calls about requests.
    pub cpu: Nanos,
    /// CPU time of the version in force for the same requests.
    pub active_cpu: Nanos,
    /// The last round of dispatching in which more than one flow waited.
    pub orders: Orders,
}

impl Counts {
    /// How often a comparison came out so.
    pub fn comparisons(&self) -> impl Iterator<Item = (Compared, [(Agreement, u64); Agreement::ALL.len()])> {
        Compared::ALL.into_iter().zip(self.comparisons).map(|(compared, counts)| {
            let mut counts = counts.into_iter();
            (compared, Agreement::ALL.map(|agreement| (agreement, counts.next().unwrap_or(0))))
        })
    }

    /// Adds those of another chain.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.dropped += other.dropped;
        self.gaps += other.gaps;
        for (to, from) in self.comparisons.iter_mut().flatten().zip(other.comparisons.iter().flatten()) {
            *to += from;
        }
        for (to, from) in
            [(&mut self.correlation, &other.correlation), (&mut self.saturation, &other.saturation)]
        {
            to.sum += from.sum;
            to.count += from.count;
        }
        self.constant += other.constant;
        self.cpu += other.cpu;
        self.active_cpu += other.active_cpu;
        if self.orders == Orders::default() {
            self.orders.clone_from(&other.orders);
        }
    }

    /// As the admin API shows it. Stages of which nothing was compared are left out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let agreement: Map<String, Value> = self
            .comparisons()
            .filter(|(_, counts)| counts.iter().any(|(_, count)| *count > 0))
            .map(|(compared, counts)| {
                let counts = counts.map(|(agreement, count)| (agreement.as_str().to_owned(), json!(count)));
                (compared.as_str().to_owned(), Value::Object(counts.into_iter().collect()))
            })
            .collect();
        json!({
            "requests": self.requests,
            "dropped": self.dropped,
            "gaps": self.gaps,
            "agreement": agreement,
            "score_correlation": self.correlation.value(),
            "score_correlations": self.correlation.count,
            "constant_scores": self.constant,
            "saturation_distance": self.saturation.value(),
            "cpu_us_mean": self.micros(self.cpu),
            "active_cpu_us_mean": self.micros(self.active_cpu),
            "last_order": {"actual": self.orders.actual, "shadow": self.orders.shadow},
        })
    }

    /// Microseconds a request.
    #[expect(clippy::cast_precision_loss, reason = "shown to people")]
    fn micros(&self, nanos: Nanos) -> Option<f64> {
        (self.requests > 0).then(|| nanos as f64 / 1_000.0 / self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(flow: &str, band: i32, rank: f64) -> Placement {
        Placement { flow: flow.into(), band, rank, ..Placement::of(1) }
    }

    #[test]
    fn ranks_agree_when_they_order_a_flow_alike_whatever_their_scale() {
        let stats = ShadowStats::default();
        let place = |active: f64, shadow: f64| {
            stats.same_place(&placement("f", 0, active), &placement("f", 0, shadow))
        };
        assert_eq!(place(1.0, 700.0), Agreement::Agree);
        assert_eq!(place(2.0, 900.0), Agreement::Agree);
        assert_eq!(place(3.0, 800.0), Agreement::Differ);
        assert_eq!(stats.same_place(&placement("f", 0, 9.0), &placement("g", 0, 9.0)), Agreement::Differ);
        assert_eq!(stats.same_place(&placement("h", 0, 9.0), &placement("h", 1, 9.0)), Agreement::Differ);
    }

    #[test]
    fn flows_without_end_do_not_fill_the_memory() {
        let stats = ShadowStats::default();
        for n in 0..10 * MAX_FLOWS {
            let placement = placement(&n.to_string(), 0, 0.0);
            assert_eq!(stats.same_place(&placement, &placement), Agreement::Agree);
        }
        assert!(stats.ranks.lock().len() <= MAX_FLOWS);
    }

    #[test]
    fn what_was_counted_is_shown_and_added_up() {
        let stats = ShadowStats::default();
        stats.judged(3_000, 1_000);
        stats.judged(5_000, 1_000);
        stats.note(Compared::Scorer, Agreement::Agree);
        stats.note(Compared::Scorer, Agreement::Failed);
        stats.correlated(Some(0.5));
        stats.correlated(None);
        let shown = stats.counts().to_json();
        assert_eq!(shown["requests"], 2);
        assert_eq!(shown["agreement"], json!({"scorer": {"agree": 1, "differ": 0, "failed": 1}}));
        assert_eq!((&shown["score_correlation"], &shown["constant_scores"]), (&json!(0.5), &json!(1)));
        assert_eq!((&shown["cpu_us_mean"], &shown["active_cpu_us_mean"]), (&json!(4.0), &json!(1.0)));
        let mut twice = stats.counts();
        twice.add(&stats.counts());
        assert_eq!((twice.requests, twice.correlation.value()), (4, Some(0.5)));
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let shown = Counts::default().to_json();
        assert_eq!((&shown["score_correlation"], &shown["cpu_us_mean"]), (&Value::Null, &Value::Null));
        assert_eq!(shown["agreement"], json!({}));
    }
}
