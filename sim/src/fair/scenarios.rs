//! What is run beside what.

use std::path::PathBuf;

use super::args::{Args, Scenario};
use super::clients::Client;
use super::report::Outcome;
use super::world::{Run, World};
use crate::replay::ReplayError;
use crate::scheduler::{Config, Nanos};

/// Why nothing could be judged.
#[derive(Debug, thiserror::Error)]
pub enum FairError {
    /// The router cannot be set up, or refuses a request for its form.
    #[error(transparent)]
    Router(#[from] ReplayError),
    /// The configurations that are compared cannot be written.
    #[error("cannot write a temporary file: {0}; set TMPDIR to a directory that can be written")]
    Write(#[from] std::io::Error),
}

/// First come first served, in all.
const FCFS: &str =
    r#"{ between = "fcfs", within = "fcfs", sessions = false, band_age_ms = 0, keep_room = 0 }"#;
/// As it ships, but for the order within flows.
const NO_TURNS: &str = r#"{ within = "fcfs", sessions = false }"#;
const SESSIONS: &str = "{ sessions = true }";
const WEIGHTS: &str = "{ weights = { one = 1, two = 2, three = 3, four = 4 } }";

/// Requests a second that one of the engines can answer, of the questions that are asked here.
const PER_ENGINE: f64 = 14.0;
/// How long requests may wait: what the router allows, and what agents are allowed here.
const MINUTE: Nanos = 60_000_000_000;
const HOUR: Nanos = 60 * MINUTE;

/// Runs a scenario: one outcome for each way.
///
/// # Errors
/// When the router cannot be set up.
pub fn run(args: &Args) -> Result<Vec<Outcome>, FairError> {
    let folder = tempfile::tempdir()?;
    let write = |name: &str, config: &str| -> Result<Option<PathBuf>, FairError> {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("[[plugin]]\nname = \"fairness\"\nconfig = {config}\n"))?;
        Ok(Some(file))
    };
    let ttl = if agents_wait(args.scenario) { HOUR } else { MINUTE };
    let (seconds, agents) = (args.seconds, |turns| vec![Client::agents(args.sessions, turns)]);
    let runs = match args.scenario {
        Scenario::Overload => {
            let (all, others) = (overload(args), overload(args).split_off(1));
            vec![
                Run { name: "as it ships", config: None, clients: all.clone(), seconds, ttl },
                Run { name: "without the aggressor", config: None, clients: others, seconds, ttl },
                Run {
                    name: "first come first served",
                    config: write("fcfs", FCFS)?,
                    clients: all,
                    seconds,
                    ttl,
                },
            ]
        }
        Scenario::Shares => {
            let flows = ["one", "two", "three", "four"];
            let rate = PER_ENGINE * args.engines as f64;
            let clients = flows.map(|flow| Client::questions(flow, flow, rate)).to_vec();
            vec![Run { name: "weights 1 to 4", config: write("weights", WEIGHTS)?, clients, seconds, ttl }]
        }
        Scenario::Turns => vec![
            Run { name: "priority by turn", config: None, clients: agents((2, 30)), seconds, ttl },
            Run {
                name: "fcfs within flows",
                config: write("fcfs", NO_TURNS)?,
                clients: agents((2, 30)),
                seconds,
                ttl,
            },
        ],
        Scenario::Sessions => vec![
            Run {
                name: "with room for sessions",
                config: write("sessions", SESSIONS)?,
                clients: agents((6, 14)),
                seconds,
                ttl,
            },
            Run { name: "as it ships", config: None, clients: agents((6, 14)), seconds, ttl },
            Run {
                name: "first come first served",
                config: write("fcfs", FCFS)?,
                clients: agents((6, 14)),
                seconds,
                ttl,
            },
        ],
    };
    let scheduler = engine(args);
    let outcome =
        |run: &Run| World::new(run, args.engines, scheduler.clone(), args.plugins.clone(), args.seed)?.run();
    runs.iter().map(outcome).collect()
}

/// Whether agents wait as long as it takes: a refusal would end a session, and be no comparison.
fn agents_wait(scenario: Scenario) -> bool {
    matches!(scenario, Scenario::Turns | Scenario::Sessions)
}

/// Three times what the engines can take: the first sends 20 times what each of the others does.
fn overload(args: &Args) -> Vec<Client> {
    let rate = 3.0 * PER_ENGINE * args.engines as f64 / f64::from(20 + args.others);
    let mut clients = vec![Client::questions("aggressor", "aggressor", 20.0 * rate)];
    clients.extend((0..args.others).map(|n| Client::questions(format!("user-{n}"), "interactive", rate)));
    clients
}

/// An engine that runs 32 requests at once. For sessions its cache holds a third of its part of them.
fn engine(args: &Args) -> Config {
    let mut config = Config { max_num_seqs: 32, ..Config::default() };
    if args.scenario == Scenario::Sessions {
        // A session has 4,000 tokens in the middle of its life.
        let tokens = args.sessions as usize * 4_000 / 3 / args.engines.max(1);
        config.num_blocks = (tokens / config.block_size.max(1)).max(512);
        config.max_num_seqs = 256;
    }
    config
}
