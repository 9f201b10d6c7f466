//! `pd-split` by itself beside its other modes, in virtual time: the figures are the same on every machine.

use sluicegate_tests::{Value, places};
use tokio::process::Command;

/// Each mode on this mix: for each set of engines, how far `auto` is from the best of the modes.
async fn behind_the_best(mix: &str, rate: &str) {
    let mut command = Command::new(places::sim());
    command.args(["split", "--json", "--seconds", "6", "--mix", mix, "--rate", rate]);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), 10);
    for setup in ["4 + 4, auto", "8, auto"] {
        let row = rows.iter().find(|row| row["setup"] == *setup).unwrap();
        let slowdown = row["slowdown"].as_f64().unwrap();
        assert!((1.0..=1.05).contains(&slowdown), "{mix} at {rate}: {row:#}");
    }
    let requests: Vec<u64> = rows.iter().filter_map(|row| row["report"]["requests"].as_u64()).collect();
    assert!(requests.iter().all(|count| *count == requests[0] && *count > 10), "{requests:?}");
}

#[tokio::test]
async fn auto_is_as_good_as_the_best_mode_on_long_prompts() {
    behind_the_best("long", "9").await;
}

#[tokio::test]
async fn auto_is_as_good_as_the_best_mode_on_a_mix_of_both() {
    behind_the_best("mixed", "16").await;
}
