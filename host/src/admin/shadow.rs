//! What shadows would have changed, and what they cost: for the metrics and `GET /plugins`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::clock::{Nanos, SECOND};
use crate::policy::{Counts, PolicySet, Shadow};
use crate::telemetry::Page;

/// The rows of every shadow of the set.
pub(super) fn metrics(page: &mut Page, set: &PolicySet) {
    for (name, counts) in counts(set) {
        rows(page, name, &counts);
    }
}

/// The same of the shadow of this name, if there is one.
pub(super) fn shown(set: &PolicySet, name: &str) -> Option<Value> {
    counts(set).get(name).map(Counts::to_json)
}

/// What the shadows of each name counted, over all chains. Chains may share one's numbers.
fn counts(set: &PolicySet) -> BTreeMap<&str, Counts> {
    let mut counts = BTreeMap::<&str, Counts>::new();
    let mut seen = Vec::new();
    for shadow in set.chains.values().flat_map(|chain| &chain.shadows) {
        let Shadow { plugin, stats, .. } = &**shadow;
        let address = std::sync::Arc::as_ptr(stats);
        if !seen.contains(&address) {
            seen.push(address);
            counts.entry(&plugin.name).or_default().add(&stats.counts());
        }
    }
    counts
}

fn rows(page: &mut Page, name: &str, counts: &Counts) {
    let plugin = ("plugin", name);
    page.counter("shadow_requests", "Requests about which a shadow was asked")
        .add(&[plugin], counts.requests);
    page.counter("shadow_dropped", "Requests about which a shadow was not asked, because too many waited")
        .add(&[plugin], counts.dropped);
    page.counter("shadow_gaps", "Events and rounds of dispatching that a shadow did not hear")
        .add(&[plugin], counts.gaps);
    let mut agreement =
        page.counter("shadow_agreement", "Answers of shadows against what was done, by stage");
    for (compared, results) in counts.comparisons() {
        for (result, count) in results.into_iter().filter(|(_, count)| *count > 0) {
            let labels = [plugin, ("stage", compared.as_str()), ("result", result.as_str())];
            agreement.add(&labels, count);
        }
    }
    page.gauge("shadow_score_correlation", "Mean rank correlation with the scores of the version in force")
        .set(&[plugin], counts.correlation.value().unwrap_or(f64::NAN));
    let mut cpu =
        page.counter("shadow_cpu_seconds", "Time of calls about the requests that a shadow was asked about");
    for (which, nanos) in [("shadow", counts.cpu), ("active", counts.active_cpu)] {
        cpu.accrue(&[plugin, ("which", which)], seconds(nanos));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum that people look at")]
fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::policy::{Agreement, Chain, Compared, OnEmpty, OnError, ShadowStats, Stages};
    use crate::route::tests::plugin;
    use crate::telemetry::{Format, Metrics};

    #[test]
    fn chains_that_share_numbers_are_counted_once() {
        let stats = Arc::new(ShadowStats::default());
        stats.judged(3_000_000_000, 1_500_000_000);
        stats.note(Compared::Scorer, Agreement::Differ);
        stats.correlated(Some(-0.5));
        let shadow = |stats: &Arc<ShadowStats>| {
            let plugin = plugin(OnError::Default, OnEmpty::Reject);
            Arc::new(Shadow { plugin, weight: 1.0, stages: Stages::default(), stats: Arc::clone(stats) })
        };
        let chain = |shadow| Arc::new(Chain { shadows: vec![shadow], ..Chain::default() });
        let mut set = PolicySet::default();
        for (name, stats) in [("a", &stats), ("b", &stats), ("c", &Arc::default())] {
            set.chains.insert(name.into(), chain(shadow(stats)));
        }
        let page = Metrics::new().encode(Format::Prometheus, |page| metrics(page, &set));
        for row in [
            "sluicegate_shadow_requests_total{plugin=\"scripted\"} 1",
            "sluicegate_shadow_agreement_total{plugin=\"scripted\",result=\"differ\",stage=\"scorer\"} 1",
            "sluicegate_shadow_score_correlation{plugin=\"scripted\"} -0.5",
            "sluicegate_shadow_cpu_seconds_total{plugin=\"scripted\",which=\"active\"} 1.5",
        ] {
            assert!(page.lines().any(|line| line == row), "{row} is not in\n{page}");
        }
    }
}
