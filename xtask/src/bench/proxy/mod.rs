//! What a request through the proxy costs, beside proxies and routers of others.
//!
//! Each has one core for itself, in front of the same four engines; load and engines have the other core. nginx,
//! HAProxy and Envoy pass requests on round robin and read no body. The routers look for the cached prefix; ours also
//! asks its policies and explains each request. CPU time is that of the whole process and its children.

mod arms;
mod load;

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use self::arms::{ARMS, Arm};
use self::load::{Cost, Load};
use super::process::Server;
use super::{nginx, routers};
use crate::dist;
use crate::error::Error;
use crate::machine::{NGINX, WRK};
use crate::run::say;
use crate::workspace::Workspace;

/// The core of what is measured.
const PROXY_CPU: usize = 0;
/// The core of load and engines.
const LOAD_CPU: usize = 1;
const ENGINES: usize = 4;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only what has a name that contains one of these; all when empty.
    arms: Vec<String>,
    /// Rounds that count; one more before them warms up.
    rounds: usize,
    /// Seconds of one measurement.
    seconds: u32,
}

/// Reads the flags of this benchmark.
///
/// # Errors
/// When a flag is not known or lacks its value.
pub(crate) fn options(flags: &[String]) -> Result<Options, Error> {
    let mut options = Options { arms: Vec::new(), rounds: 3, seconds: 4 };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = flags.next().ok_or_else(|| Error::Usage(format!("{flag} needs a value")))?;
        let number =
            || value.parse::<u32>().map_err(|_| Error::Usage(format!("{flag} takes a whole number")));
        match flag.as_str() {
            "--arm" => options.arms.push(value.clone()),
            "--rounds" => options.rounds = usize::try_from(number()?).unwrap_or(1).max(1),
            "--seconds" => options.seconds = number()?.max(1),
            other => return Err(Error::Usage(format!("bench proxy does not know {other}"))),
        }
    }
    Ok(options)
}

/// Measures and prints a table for each load.
pub(crate) fn measure(workspace: &Workspace, options: &Options) -> Result<(), Error> {
    let (nginx_program, wrk) = (NGINX.ensure()?, WRK.ensure()?);
    let wanted = |arm: &&Arm| {
        // Everything is told against nginx.
        arm.name == ARMS[0].name
            || options.arms.is_empty()
            || options.arms.iter().any(|part| arm.name.contains(part.as_str()))
    };
    let arms: Vec<&Arm> = ARMS.iter().filter(wanted).collect();
    let peers = routers::install(workspace, arms.iter().any(|arm| arm.is_a_package()))?;
    if arms.iter().any(|arm| arm.is_native()) {
        dist::build_native(workspace)?;
    }
    let folder = workspace.made("bench");
    let engines = free_ports(ENGINES)?;
    let at_once = nginx::engines(&folder.join("engines"), &engines)?;
    let first = engines.first().copied().unwrap_or_default();
    let engines_log = folder.join("engines/log");
    let command = [nginx_program, "-c", &text(&at_once)];
    let _engines = Server::start(LOAD_CPU, &command, first, &engines_log)?;
    let streaming = free_ports(ENGINES)?;
    let _streaming =
        streaming.iter().map(|port| streams(workspace, *port, &folder)).collect::<Result<Vec<_>, _>>()?;

    for load in load::LOADS {
        let behind = if load.streams { &streaming } else { &engines };
        let servers = arms.iter().map(|arm| arm.start(workspace, peers.as_deref(), behind));
        let servers = servers.collect::<Result<Vec<_>, _>>()?;
        let script = load.script(&folder)?;
        let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); arms.len()];
        for round in 0..=options.rounds {
            for ((arm, (server, port)), costs) in arms.iter().zip(&servers).zip(&mut costs) {
                let cost = load.run(wrk, server, *port, &script, options.seconds)?;
                say(format!("{}, {}: {cost}", load.name, arm.name));
                if round > 0 {
                    costs.push(cost);
                }
            }
        }
        print(&load, &arms, &costs);
    }
    Ok(())
}

/// An engine whose streams have an event for each token, as fast as they come.
fn streams(workspace: &Workspace, port: u16, folder: &Path) -> Result<Server, Error> {
    let program = text(&workspace.dist("sluicegate-sim"));
    let listen = address(port);
    let command = [
        &program,
        "engine",
        "--listen",
        &listen,
        "--model",
        "tiny",
        "--decode-ms",
        "1",
        "--until-stdin-closes",
    ];
    Server::start(LOAD_CPU, &command, port, &folder.join(format!("streams-{port}.log")))
}

fn print(load: &Load, arms: &[&Arm], costs: &[Vec<Cost>]) {
    println!("\n`{}`: {}\n", load.name, load.about);
    println!("| proxy | CPU a request, µs | ÷ nginx | p50, ms | p99, ms | requests/s | memory, MiB |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let baseline = costs.first().map(Vec::as_slice).unwrap_or_default();
    for (arm, costs) in arms.iter().zip(costs) {
        let of = |value: fn(&Cost) -> f64| median(costs.iter().map(value).collect());
        let ratio =
            median(costs.iter().zip(baseline).map(|(ours, nginx)| ours.micros / nginx.micros).collect());
        println!(
            "| {} | {:.1} | {ratio:.2} | {:.2} | {:.2} | {:.0} | {:.0} |",
            arm.name,
            of(|cost| cost.micros),
            of(|cost| cost.p50_ms),
            of(|cost| cost.p99_ms),
            of(|cost| cost.per_second),
            of(|cost| cost.resident_mib),
        );
    }
}

pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    let bind = || TcpListener::bind(("127.0.0.1", 0));
    let held: Result<Vec<_>, _> = (0..count).map(|_| bind()).collect();
    let held = held.map_err(Error::io("cannot find free ports"))?;
    let ports: Result<Vec<_>, _> =
        held.iter().map(|listener| listener.local_addr().map(|at| at.port())).collect();
    ports.map_err(Error::io("cannot find free ports"))
}

pub(super) fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

pub(super) fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Writes a file that a program is to read.
pub(super) fn written(folder: &Path, name: &str, content: &str) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    let path = folder.join(name);
    std::fs::write(&path, content).map_err(Error::io(format!("cannot write {}", path.display())))?;
    Ok(path)
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
