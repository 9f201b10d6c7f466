//! State that is read at scrape time, as families of samples.
//!
//! Names and labels may come from plugins and endpoints, so a [`Page`] makes them such that every parser
//! accepts the result: a family has one type, no two families share a sample's name, no two samples of a
//! family have the same labels, and names hold only the characters that names may hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

type Labels = Vec<(String, String)>;
type Pair<'a> = (&'a str, &'a str);

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Debug, Clone)]
enum Value {
    Count(u64),
    Amount(f64),
    Level(f64),
    /// Sum, count, and the count within each upper bound (not cumulative).
    Spread(f64, u64, Vec<(f64, u64)>),
}

#[derive(Debug)]
struct Family {
    kind: Kind,
    help: &'static str,
    samples: BTreeMap<Labels, Value>,
}

/// Families that are made for one scrape.
#[derive(Debug, Default)]
pub struct Page {
    families: BTreeMap<String, Family>,
    /// Names of samples that exist, on this page or elsewhere.
    taken: BTreeSet<String>,
}

/// One family of a [`Page`].
pub struct Sheet<'a>(&'a mut Family);

impl Page {
    /// A page that leaves these families' names alone, because others encode them.
    pub(super) fn beside(names: &[&str]) -> Self {
        let mut page = Self::default();
        for name in names {
            page.taken.extend(sample_names(name));
        }
        page
    }

    /// A counter; `_total` is added to its name.
    pub fn counter(&mut self, name: &str, help: &'static str) -> Sheet<'_> {
        self.family(name, help, Kind::Counter)
    }

    /// A gauge.
    pub fn gauge(&mut self, name: &str, help: &'static str) -> Sheet<'_> {
        self.family(name, help, Kind::Gauge)
    }

    /// A histogram.
    pub fn histogram(&mut self, name: &str, help: &'static str) -> Sheet<'_> {
        self.family(name, help, Kind::Histogram)
    }

    /// The family of this name and kind. When the name is taken by something else an underscore is added
    /// until it is free, so that a plugin cannot spoil the page with a name of its own.
    fn family(&mut self, name: &str, help: &'static str, kind: Kind) -> Sheet<'_> {
        let mut name = clean(name, true);
        if kind == Kind::Counter {
            name.truncate(name.strip_suffix("_total").map_or(name.len(), str::len));
        }
        while self.families.get(&name).map_or_else(|| self.is_taken(&name), |known| known.kind != kind) {
            name.push('_');
        }
        if !self.families.contains_key(&name) {
            self.taken.extend(sample_names(&name));
        }
        Sheet(self.families.entry(name).or_insert_with(|| Family { kind, help, samples: BTreeMap::new() }))
    }

    fn is_taken(&self, name: &str) -> bool {
        sample_names(name).iter().any(|name| self.taken.contains(name))
    }
}

impl Sheet<'_> {
    /// Adds to a counter.
    pub fn add(&mut self, labels: &[Pair<'_>], count: u64) -> &mut Self {
        let value = self.0.samples.entry(cleaned(labels)).or_insert(Value::Count(0));
        if let Value::Count(sum) = value {
            *sum = sum.saturating_add(count);
        }
        self
    }

    /// Adds to a counter of something that is no whole number, such as seconds.
    pub fn accrue(&mut self, labels: &[Pair<'_>], amount: f64) -> &mut Self {
        let value = self.0.samples.entry(cleaned(labels)).or_insert(Value::Amount(0.0));
        if let Value::Amount(sum) = value
            && amount.is_finite()
            && amount >= 0.0
        {
            *sum += amount;
        }
        self
    }

    /// Sets a gauge; what is not known (NaN) or not finite has no sample.
    pub fn set(&mut self, labels: &[Pair<'_>], level: f64) -> &mut Self {
        if level.is_finite() {
            self.0.samples.insert(cleaned(labels), Value::Level(level));
        }
        self
    }

    /// Adds to a histogram: the sum, the count of all, and the counts within each upper bound (each one
    /// counted in one bucket alone; the rest is above the last bound).
    pub fn spread(&mut self, labels: &[Pair<'_>], sum: f64, count: u64, buckets: &[(f64, u64)]) -> &mut Self {
        if !sum.is_finite() {
            return self;
        }
        let new = || Value::Spread(0.0, 0, buckets.iter().map(|(bound, _)| (*bound, 0)).collect());
        let value = self.0.samples.entry(cleaned(labels)).or_insert_with(new);
        if let Value::Spread(total, all, within) = value {
            *total += sum;
            *all = all.saturating_add(count);
            for ((_, to), (_, from)) in within.iter_mut().zip(buckets) {
                *to = to.saturating_add(*from);
            }
        }
        self
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, family) in &self.families {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
            for (labels, value) in &family.samples {
                if labels.is_empty() {
                    sample(&mut metric, value)?;
                } else {
                    sample(&mut metric.encode_family(labels)?, value)?;
                }
            }
        }
        Ok(())
    }
}

fn sample(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Count(count) => encoder.encode_counter::<NoLabelSet, _, u64>(count, None),
        Value::Amount(amount) => encoder.encode_counter::<NoLabelSet, _, u64>(amount, None),
        Value::Level(level) => encoder.encode_gauge(level),
        Value::Spread(sum, count, buckets) => {
            let within: u64 = buckets.iter().map(|(_, count)| count).sum();
            let above = (f64::INFINITY, count.saturating_sub(within));
            let buckets: Vec<_> = buckets.iter().copied().chain([above]).collect();
            encoder.encode_histogram::<NoLabelSet>(*sum, *count, &buckets, None)
        }
    }
}

/// The names that samples of a family of this name may have, whatever its kind.
fn sample_names(name: &str) -> [String; 7] {
    ["", "_total", "_created", "_bucket", "_sum", "_count", "_info"].map(|suffix| format!("{name}{suffix}"))
}

/// A name as names may be: ASCII letters, digits and underscores, a colon in a metric's, no digit first.
fn clean(name: &str, metric: bool) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (metric && c == ':');
    let mut clean: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if !clean.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == ':') {
        clean.insert(0, '_');
    }
    clean
}

/// Labels with clean and distinct names, sorted. Names that Prometheus keeps for itself get a suffix.
fn cleaned(labels: &[Pair<'_>]) -> Labels {
    let mut cleaned: Labels = Vec::with_capacity(labels.len());
    for (name, value) in labels {
        let mut name = clean(name, false);
        if let Some(rest) = name.strip_prefix("__") {
            name = format!("_{}", rest.trim_start_matches('_'));
        }
        while matches!(name.as_str(), "le" | "quantile") || cleaned.iter().any(|(known, _)| *known == name) {
            name.push('_');
        }
        cleaned.push((name, (*value).to_owned()));
    }
    cleaned.sort_unstable();
    cleaned
}
