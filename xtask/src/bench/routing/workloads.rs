//! The traffic.

use std::path::Path;
use std::process::Command;

/// Traffic with a name.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What it stands for.
    pub(crate) about: &'static str,
    pub(crate) traffic: Traffic,
}

/// Where the text comes from.
#[derive(Debug)]
pub(crate) enum Traffic {
    /// Made by the load generator, with these flags.
    Made(&'static [&'static str]),
    /// Recorded, with these flags.
    Recorded(&'static [&'static str]),
    /// Made, for a few real engines on a small machine.
    Small(&'static [&'static str]),
}

/// All of them. Rates are such that the better routers are busy and the worse ones fall behind.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        name: "shared",
        about: "150 system prompts of 6,000 tokens, questions of 1,200, 30 requests a second at random times",
        traffic: Traffic::Made(&[
            "--rate",
            "30",
            "--duration",
            "60",
            "--groups",
            "150",
            "--prefix-tokens",
            "6000",
            "--question-tokens",
            "1200",
            "--output-tokens",
            "100",
        ]),
    },
    Workload {
        name: "agents",
        about: "96 conversations at once of 12 turns, 4 system prompts of 3,000 tokens, 700 more tokens a turn",
        traffic: Traffic::Made(&[
            "--sessions",
            "96",
            "--concurrency",
            "96",
            "--turns",
            "12",
            "--duration",
            "60",
            "--groups",
            "4",
            "--prefix-tokens",
            "3000",
            "--question-tokens",
            "700",
            "--output-tokens",
            "60",
            "--ramp-s",
            "5",
        ]),
    },
    Workload {
        name: "recorded",
        about: "recorded sessions of software agents, 12 at once",
        traffic: Traffic::Recorded(&["--sessions", "12", "--concurrency", "12"]),
    },
    Workload {
        name: "hot",
        about: "every second request has the same 6,000 tokens, more than one endpoint can serve; 100 others",
        traffic: Traffic::Made(&[
            "--rate",
            "40",
            "--duration",
            "60",
            "--groups",
            "100",
            "--hot-share",
            "0.5",
            "--prefix-tokens",
            "6000",
            "--question-tokens",
            "1200",
            "--output-tokens",
            "60",
        ]),
    },
    Workload {
        name: "burst",
        about: "256 prompts at once that share 6,000 tokens and have 8 of their own, endpoints idle",
        traffic: Traffic::Made(&[
            "--requests",
            "256",
            "--concurrency",
            "256",
            "--groups",
            "1",
            "--prefix-tokens",
            "6000",
            "--question-tokens",
            "8",
            "--output-tokens",
            "60",
        ]),
    },
    Workload {
        name: "small",
        about: "6 conversations at once of 6 turns, 3 system prompts of 600 tokens, 100 more a turn, before real engines",
        traffic: Traffic::Small(&[
            "--sessions",
            "6",
            "--concurrency",
            "6",
            "--turns",
            "6",
            "--requests",
            "144",
            "--groups",
            "3",
            "--prefix-tokens",
            "600",
            "--question-tokens",
            "100",
            "--output-tokens",
            "8",
        ]),
    },
];

impl Workload {
    /// Adds the flags of the load generator.
    pub(crate) fn flags(&self, trace: Option<&Path>, command: &mut Command) {
        match &self.traffic {
            Traffic::Made(flags) | Traffic::Small(flags) => command.args(*flags),
            Traffic::Recorded(flags) => {
                trace.into_iter().for_each(|trace| {
                    command.arg("--trace").arg(trace);
                });
                command.args(*flags)
            }
        };
    }
}
