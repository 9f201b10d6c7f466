//! Each set-up on the same traffic.

use std::path::{Path, PathBuf};

use super::args::{Args, Mix};
use super::report::{Row, table};
use crate::replay::{self, By, ReplayError};

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum SplitError {
    /// The router cannot be set up, or refuses a request for its form.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The configurations that are compared cannot be written.
    #[error("cannot write a temporary file: {0}; set TMPDIR to a directory that can be written")]
    Write(#[from] std::io::Error),
}

/// Engines in each set-up.
const ENGINES: usize = 8;

/// Which engines there are, and what `pd-split` is told.
struct SetUp {
    name: &'static str,
    prefill: usize,
    hand_over: bool,
    config: &'static str,
}

impl SetUp {
    const fn apart(name: &'static str, config: &'static str) -> Self {
        Self { name, prefill: ENGINES / 2, hand_over: false, config }
    }

    const fn both(name: &'static str, hand_over: bool, config: &'static str) -> Self {
        Self { name, prefill: 0, hand_over, config }
    }

    const fn is_apart(&self) -> bool {
        self.prefill > 0
    }
}

const SET_UPS: [SetUp; 10] = [
    SetUp::apart("4 + 4, never", r#"{ mode = "never" }"#),
    SetUp::apart("4 + 4, always", r#"{ mode = "always" }"#),
    SetUp::apart("4 + 4, threshold 512", r#"{ mode = "threshold" }"#),
    SetUp::apart("4 + 4, threshold 2,000", r#"{ mode = "threshold", threshold_tokens = 2000 }"#),
    SetUp::apart("4 + 4, auto", "{}"),
    SetUp::both("8 that do both", false, "{}"),
    SetUp::both("8, always", true, r#"{ mode = "always" }"#),
    SetUp::both("8, threshold 512", true, r#"{ mode = "threshold" }"#),
    SetUp::both("8, threshold 2,000", true, r#"{ mode = "threshold", threshold_tokens = 2000 }"#),
    SetUp::both("8, auto", true, "{}"),
];

/// Compares the set-ups on each mix at each rate, and hands over the table of each mix as soon as it is there.
///
/// # Errors
/// When the router cannot be set up.
pub fn run(args: &Args, mut tell: impl FnMut(&str, &str)) -> Result<Vec<Row>, SplitError> {
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let mixes = if args.mixes.is_empty() { &Mix::ALL[..] } else { &args.mixes };
    for mix in mixes {
        let begun = rows.len();
        let rates = if args.rates.is_empty() { &mix.rates()[..] } else { &args.rates };
        for rate in rates {
            rows.extend(compare(args, *mix, *rate, folder.path())?);
        }
        tell(mix.name(), &table(rows.get(begun..).unwrap_or_default()));
    }
    Ok(rows)
}

/// All set-ups at one rate.
fn compare(args: &Args, mix: Mix, rate: f64, folder: &Path) -> Result<Vec<Row>, SplitError> {
    let wanted = |set_up: &&SetUp| {
        args.only.is_empty() || args.only.iter().any(|text| set_up.name.contains(text.as_str()))
    };
    let mut rows = Vec::new();
    for set_up in SET_UPS.iter().filter(wanted) {
        let report = replay::replay(&replay::Args {
            engines: ENGINES,
            prefill: set_up.prefill,
            hand_over: set_up.hand_over,
            joining: 0,
            joining_after: 0.0,
            by: By::Router,
            config: Some(configured(set_up, folder)?),
            plugins: args.plugins.clone(),
            traffic: mix.traffic(rate, args.seconds, args.seed),
            sizes: args.sizes.clone(),
            json: false,
        })?;
        rows.push((set_up, report));
    }
    let least = |is_apart: bool| {
        let alike = rows.iter().filter(|(set_up, _)| set_up.is_apart() == is_apart);
        alike.map(|(_, report)| Row::cost(report)).fold(f64::INFINITY, f64::min)
    };
    let (apart, both) = (least(true), least(false));
    let row = |(set_up, report): (&SetUp, _)| Row {
        mix: mix.name(),
        rate,
        setup: set_up.name,
        slowdown: Row::cost(&report) / if set_up.is_apart() { apart } else { both },
        report,
    };
    Ok(rows.into_iter().map(row).collect())
}

fn configured(set_up: &SetUp, folder: &Path) -> Result<PathBuf, std::io::Error> {
    let file = folder.join("router.toml");
    std::fs::write(&file, format!("[[plugin]]\nname = \"pd-split\"\nconfig = {}\n", set_up.config))?;
    Ok(file)
}
