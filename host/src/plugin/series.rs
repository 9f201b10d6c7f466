//! Series of a plugin's own, bounded so that a guest cannot fill the memory with names and labels.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Series (name and labels) of one plugin at most.
const MAX_SERIES: usize = 256;
/// Bytes of a name, of a label's key or of its value.
const MAX_TEXT: usize = 128;
/// Labels of one series.
const MAX_LABELS: usize = 8;

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

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Noted {
    /// It counts.
    Counted,
    /// It is over a bound, or for a series of another kind.
    Dropped,
}

/// All series of one plugin.
#[derive(Debug, Default)]
pub(super) struct Series(Mutex<BTreeMap<(String, Labels), SeriesValue>>);

impl Series {
    pub(super) fn count(&self, name: String, labels: Labels, by: u64) -> Noted {
        self.update(name, labels, SeriesValue::Counter(0), |value| match value {
            SeriesValue::Counter(count) => {
                *count = count.saturating_add(by);
                Noted::Counted
            }
            _ => Noted::Dropped,
        })
    }

    pub(super) fn gauge(&self, name: String, labels: Labels, to: f64) -> Noted {
        self.update(name, labels, SeriesValue::Gauge(0.0), |value| match value {
            SeriesValue::Gauge(gauge) => {
                *gauge = to;
                Noted::Counted
            }
            _ => Noted::Dropped,
        })
    }

    pub(super) fn observe(&self, name: String, labels: Labels, seen: f64) -> Noted {
        self.update(name, labels, SeriesValue::Summary(0, 0.0), |value| match value {
            SeriesValue::Summary(count, sum) => {
                *count += 1;
                *sum += seen;
                Noted::Counted
            }
            _ => Noted::Dropped,
        })
    }

    /// Every series.
    pub(super) fn snapshot(&self) -> Vec<SeriesSnapshot> {
        let values = self.0.lock();
        let series = values.iter().map(|((name, labels), value)| SeriesSnapshot {
            name: name.clone(),
            labels: labels.clone(),
            value: *value,
        });
        series.collect()
    }

    fn update(
        &self,
        name: String,
        labels: Labels,
        new: SeriesValue,
        change: impl FnOnce(&mut SeriesValue) -> Noted,
    ) -> Noted {
        let too_long = |text: &String| text.len() > MAX_TEXT;
        if too_long(&name)
            || labels.len() > MAX_LABELS
            || labels.iter().any(|(key, value)| too_long(key) || too_long(value))
        {
            return Noted::Dropped;
        }
        let key = (name, labels);
        let mut values = self.0.lock();
        if values.len() >= MAX_SERIES && !values.contains_key(&key) {
            return Noted::Dropped;
        }
        change(values.entry(key).or_insert(new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_the_bound_is_dropped() {
        let series = Series::default();
        for n in 0..MAX_SERIES {
            assert_eq!(series.count("c".into(), vec![("n".into(), n.to_string())], 1), Noted::Counted);
        }
        assert_eq!(series.count("d".into(), Vec::new(), 1), Noted::Dropped);
        assert_eq!(series.count("c".into(), vec![("n".into(), "0".into())], 1), Noted::Counted);
        let all = series.snapshot();
        assert_eq!(all.len(), MAX_SERIES);
        assert_eq!(all[0].value, SeriesValue::Counter(2));
    }

    #[test]
    fn names_labels_and_their_number_are_bounded() {
        let series = Series::default();
        let long = "x".repeat(MAX_TEXT + 1);
        let many = vec![(String::new(), String::new()); MAX_LABELS + 1];
        assert_eq!(series.gauge(long.clone(), Vec::new(), 1.0), Noted::Dropped);
        assert_eq!(series.gauge("g".into(), vec![("k".into(), long.clone())], 1.0), Noted::Dropped);
        assert_eq!(series.gauge("g".into(), vec![(long, "v".into())], 1.0), Noted::Dropped);
        assert_eq!(series.gauge("g".into(), many, 1.0), Noted::Dropped);
        assert_eq!(series.snapshot(), []);
    }

    #[test]
    fn a_series_keeps_its_kind() {
        let series = Series::default();
        assert_eq!(series.count("n".into(), Vec::new(), 1), Noted::Counted);
        assert_eq!(series.gauge("n".into(), Vec::new(), 7.0), Noted::Dropped);
        assert_eq!(series.snapshot()[0].value, SeriesValue::Counter(1));
    }
}
