//! What is written is read back by a strict parser of the text format.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::types::Api;

/// Series by `name{labels}`, of a page that is valid throughout.
fn parse(page: &str) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    let mut families = BTreeSet::new();
    let mut family: Option<(String, String)> = None;
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type has a name and a kind");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert!(families.insert(name.to_owned()), "family twice: {line}");
            family = Some((name.to_owned(), kind.to_owned()));
        } else if line.starts_with('#') {
            assert!(line.starts_with("# HELP ") || line == "# EOF", "{line}");
        } else {
            let (name, kind) = family.as_ref().expect("a type comes before its samples");
            let (labels, value) = line.rsplit_once(' ').expect("a sample has a value");
            let bare = labels.split('{').next().unwrap();
            let suffixes: &[&str] =
                if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &["", "_total"] };
            assert!(suffixes.iter().any(|suffix| bare == format!("{name}{suffix}")), "{line} in {name}");
            check_labels(&labels[bare.len()..]);
            let value = if value == "+Inf" { f64::INFINITY } else { value.parse().expect(line) };
            assert!(series.insert(labels.to_owned(), value).is_none(), "series twice: {line}");
        }
    }
    series
}

fn check_labels(text: &str) {
    let Some(mut rest) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        assert!(text.is_empty(), "{text}");
        return;
    };
    let mut names = BTreeSet::new();
    while !rest.is_empty() {
        let (name, tail) = rest.split_once("=\"").expect(text);
        let first = name.chars().next().expect(text);
        assert!(first.is_ascii_alphabetic() || first == '_', "{text}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{text}");
        assert!(names.insert(name.to_owned()), "label twice: {text}");
        let mut escaped = false;
        let end = tail.find(|c| {
            let end = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            end
        });
        let end = end.expect(text);
        rest = &tail[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

fn encoded(metrics: &Metrics, collect: impl Fn(&mut Page)) -> BTreeMap<String, f64> {
    let open = metrics.encode(Format::OpenMetrics, &collect);
    assert!(open.ends_with("# EOF\n"));
    parse(&open);
    parse(&metrics.encode(Format::Prometheus, &collect))
}

#[test]
fn requests_are_counted() {
    let metrics = Metrics::new();
    let pool = metrics.pool("llama");
    pool.request(Api::Chat, 200, 0.3);
    pool.request(Api::Chat, 200, 2.0);
    pool.request(Api::Messages, 503, 0.1);
    pool.refused("rejected-no-endpoints");
    pool.retried();
    pool.aborted();
    pool.ttft(0.04);
    pool.queued(0.0, 0);
    pool.tokens(100, 40, Some(50), 7);
    pool.tokens(10, 5, None, 1);
    metrics.pool("llama").retried();
    let series = encoded(&metrics, |_| ());
    for (name, value) in [
        (r#"sluicegate_requests_total{pool="llama",api="chat",code="200"}"#, 2.0),
        (r#"sluicegate_requests_total{pool="llama",api="messages",code="503"}"#, 1.0),
        (r#"sluicegate_requests_refused_total{pool="llama",reason="rejected-no-endpoints"}"#, 1.0),
        (r#"sluicegate_retries_total{pool="llama"}"#, 2.0),
        (r#"sluicegate_requests_aborted_total{pool="llama"}"#, 1.0),
        (r#"sluicegate_request_seconds_count{pool="llama"}"#, 3.0),
        (r#"sluicegate_request_seconds_bucket{pool="llama",le="0.5"}"#, 2.0),
        (r#"sluicegate_ttft_seconds_bucket{pool="llama",le="0.05"}"#, 1.0),
        (r#"sluicegate_queue_seconds_count{pool="llama"}"#, 1.0),
        (r#"sluicegate_prompt_tokens_total{pool="llama"}"#, 110.0),
        (r#"sluicegate_predicted_cached_tokens_total{pool="llama",reported="yes"}"#, 40.0),
        (r#"sluicegate_predicted_cached_tokens_total{pool="llama",reported="no"}"#, 5.0),
        (r#"sluicegate_reported_cached_tokens_total{pool="llama"}"#, 50.0),
        (r#"sluicegate_output_tokens_total{pool="llama"}"#, 8.0),
    ] {
        assert_eq!(series.get(name), Some(&value), "{name} of {series:#?}");
    }
}

#[test]
fn names_that_are_in_the_way_move_aside() {
    let metrics = Metrics::new();
    metrics.pool("p").request(Api::Chat, 200, 0.3);
    let series = encoded(&metrics, |page| {
        // Named like a family that is counted, like its samples, and like each other with another kind.
        page.gauge("requests", "h").set(&[], 1.0);
        page.gauge("request_seconds_bucket", "h").set(&[], 2.0);
        page.counter("x", "h").add(&[("plugin", "a")], 3);
        page.gauge("x", "h").set(&[("plugin", "b")], 4.0);
        page.counter("x_total", "h").add(&[("plugin", "c")], 5);
        page.gauge("9 é\n{}", "h").set(&[], 6.0);
    });
    assert_eq!(series["sluicegate_requests_"], 1.0);
    assert_eq!(series["sluicegate_request_seconds_bucket_"], 2.0);
    assert_eq!(series[r#"sluicegate_x_total{plugin="a"}"#], 3.0);
    assert_eq!(series[r#"sluicegate_x_{plugin="b"}"#], 4.0);
    assert_eq!(series[r#"sluicegate_x_total{plugin="c"}"#], 5.0);
    assert_eq!(series["sluicegate__9_____"], 6.0);
}

#[test]
fn labels_are_made_fit() {
    let series = encoded(&Metrics::new(), |page| {
        let mut sheet = page.gauge("g", "h");
        sheet.set(&[("a-b", "\"\\\n"), ("a.b", "2"), ("le", "3"), ("__x", "4"), ("", "5")], 1.0);
        sheet.set(&[("n", "nan")], f64::NAN);
        page.counter("c", "h").add(&[("a-b", "1")], 2).add(&[("a_b", "1")], 3);
    });
    assert_eq!(series[r#"sluicegate_g{_="5",_x="4",a_b="\"\\\n",a_b_="2",le_="3"}"#], 1.0);
    assert_eq!(series[r#"sluicegate_c_total{a_b="1"}"#], 5.0);
    assert_eq!(series.len(), 2);
}

#[test]
fn histograms_add_up() {
    let series = encoded(&Metrics::new(), |page| {
        let mut sheet = page.histogram("h", "h");
        for _ in 0..2 {
            sheet.spread(&[("s", "1")], 1.5, 4, &[(0.1, 1), (1.0, 2)]);
        }
        sheet.spread(&[("s", "2")], f64::NAN, 1, &[]);
    });
    let bucket = |le: &str| series[&format!(r#"sluicegate_h_bucket{{s="1",le="{le}"}}"#)];
    assert_eq!([bucket("0.1"), bucket("1"), bucket("+Inf")], [2.0, 6.0, 8.0]);
    assert_eq!(series[r#"sluicegate_h_sum{s="1"}"#], 3.0);
}

proptest::proptest! {
    #[test]
    fn whatever_plugins_name_their_series_the_page_is_valid(
        names in proptest::collection::vec(("[a-c_:9é \"\n]{0,4}(_total|_sum|_count|_bucket|_info)?", 0_u8..3), 0..12),
        labels in proptest::collection::vec(("[a_\\-9]{0,3}|le|quantile|__a", ".{0,4}"), 0..4),
    ) {
        let labels: Vec<_> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        encoded(&Metrics::new(), |page| {
            for (name, kind) in &names {
                match kind {
                    0 => { page.counter(name, "h").add(&labels, 1); }
                    1 => { page.gauge(name, "h").set(&labels, 1.0); }
                    _ => { page.histogram(name, "h").spread(&labels, 1.0, 1, &[]); }
                }
            }
        });
    }
}
