//! The book says what the code does.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config;
use crate::policy::Builtin;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect(file)
}

#[test]
fn every_key_and_column_is_in_the_book() {
    let keys = read("docs/configuration.md");
    for key in config::schema().as_array().unwrap() {
        let row = format!("| `{}` |", key["key"].as_str().unwrap());
        let row = keys.lines().find(|line| line.starts_with(&row)).unwrap_or_else(|| panic!("{row}"));
        let doc = key["doc"].as_str().unwrap();
        assert!(row.contains(&doc.replace('|', "\\|")), "the book says {row}, and the code says {doc}");
    }
    let columns = read("docs/reference.md");
    for column in Builtin::ALL {
        assert!(columns.contains(&format!("| `{}` |", column.name())), "{}", column.name());
    }
}

#[test]
fn every_invariant_names_a_test_that_exists() {
    let book = read("docs/architecture.md");
    let named = book.split('`').filter_map(|part| part.split_once(".rs::"));
    let mut count = 0;
    for (file, test) in named {
        let source = read(&format!("{file}.rs"));
        assert!(source.contains(&format!("fn {test}(")), "{file}.rs holds no `{test}`");
        count += 1;
    }
    assert!(count > 20, "{count} tests are named");
}

#[test]
fn every_metric_is_in_the_book() {
    let book = read("docs/reference.md");
    let sources = [
        "telemetry/metrics",
        "telemetry/split",
        "admin/metrics",
        "admin/kv_events",
        "admin/shadow",
        "admin/tenants",
    ];
    let sources = sources.map(|file| read(&format!("host/src/{file}.rs"))).concat();
    // However its lines are broken.
    let sources = sources.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
    let named = [
        "page.gauge(\"",
        "page.counter(\"",
        "page.histogram(\"",
        "to.add(\"",
        "to.histograms(\"",
        "(\"endpoint_",
    ];
    for call in named {
        for (_, rest) in sources.match_indices(call).map(|(at, _)| sources.split_at(at + call.len())) {
            let name = rest.split('"').next().unwrap();
            let name = if call == "(\"endpoint_" { format!("endpoint_{name}") } else { name.to_owned() };
            let known = [format!("`sluicegate_{name}`"), format!("`sluicegate_{name}_total`")];
            assert!(known.iter().any(|known| book.contains(known)), "{name}");
        }
    }
}
