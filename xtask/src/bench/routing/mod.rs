//! What clients get from each router: the same engines, the same traffic, one after the other in one run.
//!
//! Eight simulated engines with the timing of a GPU server each stand behind a router; they begin with empty caches for
//! every router and every workload. Engines of your own can be named instead, and then keep their caches: each router
//! gets other text. What is told is what the engines and the clients saw: the share of the prompt
//! tokens that the engines found in their caches, time to first token, requests answered a second.

mod report;
mod workloads;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::report::{Outcome, Table};
use self::workloads::{Traffic, WORKLOADS, Workload};
use super::ask;
use super::process::Server;
use super::proxy::{address, free_ports, text};
use super::routers::{self, Place, Router};
use crate::error::Error;
use crate::run::{say, show};
use crate::test_env;
use crate::workspace::Workspace;

/// Engines behind each router.
const ENGINES: usize = 8;
/// What one engine is: 15,000 prompt tokens a second and room for 154,000 tokens of KV cache, so that 150 prompts of
/// 6,000 tokens fill three quarters of all eight together.
const ENGINE: &[&str] = &["--prefill-rate", "15000", "--num-blocks", "9600"];
/// The same where it counts the tokens of the tests' model, which makes two and a half of four bytes of words that are
/// none.
const TOKEN_ENGINE: &[&str] =
    &["--prefill-rate", "37500", "--num-blocks", "24000", "--max-num-batched-tokens", "20480"];

/// Where engines publish what they cache: they say where that is.
const ANYWHERE: &str = "tcp://127.0.0.1:0";

/// The routers; the first is what ratios are against.
static ROUTERS: [Router; 6] = [
    routers::ROUND_ROBIN,
    routers::LEAST_LOADED,
    routers::OURS,
    routers::SGLANG,
    routers::VLLM,
    routers::SMG,
];

/// What to measure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only workloads whose names contain one of these; all when empty.
    pub(crate) workloads: Vec<String>,
    /// Only routers whose names contain one of these; all when empty.
    pub(crate) routers: Vec<String>,
    /// Recorded agents' sessions, one JSON object a line; without it that workload is left out.
    pub(crate) trace: Option<PathBuf>,
    /// A configuration of ours to measure beside the others.
    pub(crate) config: Option<PathBuf>,
    /// Engines that run already, instead of simulated ones.
    pub(crate) engines: Vec<String>,
    /// The model that they serve.
    pub(crate) model: Option<String>,
    /// Engines count the tokens of a model and publish what they cache, and ours is measured with that too.
    pub(crate) precise: Option<Model>,
    /// Print JSON.
    pub(crate) json: bool,
}

/// The model of which engines count the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Model {
    /// That of the tests.
    OfTests,
    /// The one in this folder.
    In(PathBuf),
}

/// Reads the flags of this benchmark.
///
/// # Errors
/// When a flag is not known or lacks its value.
pub(crate) fn options(flags: &[String]) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().cloned().ok_or_else(|| Error::Usage(format!("{flag} needs a value")));
        match flag.as_str() {
            "--workload" => options.workloads.push(value()?),
            "--router" => options.routers.push(value()?),
            "--config" => options.config = Some(value()?.into()),
            "--trace" => options.trace = Some(value()?.into()),
            "--engine" => options.engines.push(value()?),
            "--model" => options.model = Some(value()?),
            "--precise" => options.precise = options.precise.or(Some(Model::OfTests)),
            "--tokenizer" => options.precise = Some(Model::In(value()?.into())),
            "--json" => options.json = true,
            other => return Err(Error::Usage(format!("bench routing does not know {other}"))),
        }
    }
    Ok(options)
}

/// Measures and prints a table for each workload.
pub(crate) fn measure(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    let wanted = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
    };
    let given = options.config.as_deref().map(Router::configured).transpose()?;
    let known = ROUTERS.iter().filter(|router| wanted(&options.routers, router.name));
    let tokenizer = match &options.precise {
        None => None,
        Some(Model::OfTests) => Some(test_env::prepare(workspace)?.model),
        Some(Model::In(folder)) => Some(folder.clone()),
    };
    let of_tokens =
        tokenizer.iter().flat_map(|folder| [Router::tokens(folder.clone()), Router::precise(folder.clone())]);
    let of_tokens: Vec<Router> = of_tokens.collect();
    let routers: Vec<&Router> = known.chain(&of_tokens).chain(&given).collect();
    let peers = routers::install(workspace, routers.iter().any(|router| router.is_a_package()))?;
    for workload in WORKLOADS.iter().filter(|workload| wanted(&options.workloads, workload.name)) {
        match workload.traffic {
            Traffic::Recorded(_) if options.trace.is_none() => {
                say(format!("left out: {} (name a recording with --trace FILE)", workload.name));
                continue;
            }
            Traffic::Small(_) if options.engines.is_empty() => continue,
            Traffic::Made(_) | Traffic::Recorded(_) if !options.engines.is_empty() => continue,
            _ => {}
        }
        let mut table = Table::new(workload);
        for (seed, router) in (1..).zip(&routers) {
            let (peers, tokenizer) = (peers.as_deref(), tokenizer.as_deref());
            let bench = Bench { workspace, peers, tokenizer, workload, options };
            let outcome = bench.run(router, seed)?;
            say(format!("{}, {}: {outcome}", workload.name, router.name));
            table.add(router, outcome);
        }
        if options.json { table.print_json() } else { table.print() }
    }
    Ok(())
}

struct Bench<'a> {
    workspace: &'a Workspace,
    peers: Option<&'a Path>,
    /// Of the model that engines serve; without one they count four bytes as a token.
    tokenizer: Option<&'a Path>,
    workload: &'a Workload,
    options: &'a Options,
}

impl Bench<'_> {
    fn run(&self, router: &Router, seed: u64) -> Result<Outcome, Error> {
        let folder = self.workspace.made("bench-routing").join(self.workload.name).join(router.name);
        std::fs::create_dir_all(&folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
        let ports = free_ports(ENGINES + 3)?;
        let (engines, own) = ports.split_at(ENGINES);
        let given = !self.options.engines.is_empty();
        let simulated = engines.iter().filter(|_| !given).map(|port| self.engine(*port, &folder));
        let _simulated = simulated.collect::<Result<Vec<_>, _>>()?;
        let urls = match given {
            true => self.options.engines.clone(),
            false => engines.iter().map(|port| format!("http://{}", address(*port))).collect(),
        };
        let ports = own.try_into().map_err(|_| Error::Usage("a router needs three ports".into()))?;
        let (program, peers) = (&self.workspace.release("sluicegate"), self.peers);
        let started = router.start(&Place { program, peers, folder: &folder, ports, cpu: None }, urls)?;
        let mut command = Command::new(self.workspace.release("sluicegate-sim"));
        let model = self.options.model.as_deref().unwrap_or("sim");
        command.args(["load", "--json", "--allow-failures", "--model", model]);
        if given {
            command.args(["--seed", &seed.to_string()]);
        }
        for url in &started.urls {
            command.args(["--url", url]);
        }
        self.workload.flags(self.options.trace.as_deref(), &mut command);
        let shown = show(&command);
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .map_err(Error::io(format!("cannot run {shown}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let outcome = Outcome::read(&said);
        let mut outcome =
            outcome.ok_or_else(|| Error::Failed { program: shown, status: said.into_owned() })?;
        if let Some(page) = started.admin.and_then(|admin| ask::get(admin, "/metrics").ok()) {
            outcome.predicted(&page);
        }
        Ok(outcome)
    }

    fn engine(&self, port: u16, folder: &Path) -> Result<Server, Error> {
        let program = text(&self.workspace.release("sluicegate-sim"));
        let (listen, name) = (address(port), format!("engine-{port}"));
        let mut command = vec![program.as_str(), "engine", "--listen", &listen, "--name", &name];
        command.extend(["--max-num-seqs", "128", "--until-stdin-closes"]);
        let tokenizer = self.tokenizer.map(text);
        if let Some(tokenizer) = &tokenizer {
            let events = ["--kv-events", ANYWHERE, "--kv-events-replay", ANYWHERE];
            command.extend(["--tokenizer", tokenizer].into_iter().chain(events));
        }
        command.extend(if tokenizer.is_some() { TOKEN_ENGINE } else { ENGINE });
        Server::anywhere(&command, port, &folder.join(format!("{name}.log")))
    }
}
