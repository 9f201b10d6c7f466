//! Series of a plugin's own, bounded so that a guest cannot fill the memory with labels.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Series (name and labels) of one plugin at most.
const MAX_SERIES: usize = 256;
/// Bytes of a name or label that are kept.
const MAX_TEXT: usize = 128;

type Labels = Vec<(String, String)>;

/// The value of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SeriesValue {
    /// Only grows.
    Counter(u64),
    /// The last value set.
    Gauge(f64),
    /// Count and sum of observations.
    Summary(u64, f64),
}

/// One series at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesSnapshot {
    /// The name that the plugin gave it.
    pub name: String,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its value.
    pub value: SeriesValue,
}

#[derive(Debug, Default)]
struct Inner {
    values: BTreeMap<(String, Labels), SeriesValue>,
    dropped: u64,
}

/// All series of one plugin.
#[derive(Debug, Default)]
pub(super) struct Series(Mutex<Inner>);

impl Series {
    pub(super) fn count(&self, name: String, labels: Labels, by: u64) {
        self.update(name, labels, SeriesValue::Counter(0), |value| {
            if let SeriesValue::Counter(count) = value {
                *count = count.saturating_add(by);
            }
        });
    }

    pub(super) fn gauge(&self, name: String, labels: Labels, to: f64) {
        self.update(name, labels, SeriesValue::Gauge(0.0), |value| {
            if let SeriesValue::Gauge(gauge) = value {
                *gauge = to;
            }
        });
    }

    pub(super) fn observe(&self, name: String, labels: Labels, seen: f64) {
        self.update(name, labels, SeriesValue::Summary(0, 0.0), |value| {
            if let SeriesValue::Summary(count, sum) = value {
                *count += 1;
                *sum += seen;
            }
        });
    }

    /// Every series, and how many updates were dropped over the bound.
    pub(super) fn snapshot(&self) -> (Vec<SeriesSnapshot>, u64) {
        let inner = self.0.lock();
        let series = inner.values.iter().map(|((name, labels), value)| SeriesSnapshot {
            name: name.clone(),
            labels: labels.clone(),
            value: *value,
        });
        (series.collect(), inner.dropped)
    }

    fn update(&self, name: String, labels: Labels, new: SeriesValue, change: impl FnOnce(&mut SeriesValue)) {
        let too_long = name.len() > MAX_TEXT || labels.iter().any(|(k, v)| k.len() + v.len() > 2 * MAX_TEXT);
        let key = (name, labels);
        let mut inner = self.0.lock();
        let full = inner.values.len() >= MAX_SERIES && !inner.values.contains_key(&key);
        if too_long || full {
            inner.dropped += 1;
            return;
        }
        change(inner.values.entry(key).or_insert(new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_bound_is_dropped_and_counted() {
        let series = Series::default();
        for n in 0..MAX_SERIES + 5 {
            series.count("c".into(), vec![("n".into(), n.to_string())], 1);
        }
        series.count("c".into(), vec![("n".into(), "0".into())], 1);
        let (all, dropped) = series.snapshot();
        assert_eq!((all.len(), dropped), (MAX_SERIES, 5));
        assert_eq!(all[0].value, SeriesValue::Counter(2));
    }
}
