//! CPU time of a request through the proxy, against nginx that only passes it on.
//!
//! Both run on one core in front of the same engines, in turn; load and engines have the other core. The proxy has
//! its default policies on: it reads the body, finds the cached prefix, asks the policies and explains each request,
//! of all of which nginx does nothing.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::nginx;
use super::process::Server;
use crate::error::Error;
use crate::machine::{NGINX, WRK};
use crate::run::{say, show};
use crate::workspace::Workspace;

const PROXY_CPU: usize = 0;
const LOAD_CPU: usize = 1;
const ENGINES: usize = 4;
const ROUNDS: usize = 5;
const SECONDS: u32 = 6;
const CONNECTIONS: u32 = 32;

/// A body that is measured.
struct Body {
    name: &'static str,
    bytes: usize,
}

const BODIES: [Body; 2] = [Body { name: "1.2 KB", bytes: 1_200 }, Body { name: "220 KB", bytes: 220_000 }];

/// Measures and prints a table.
pub(crate) fn measure(workspace: &Workspace) -> Result<(), Error> {
    let (nginx_program, wrk) = (NGINX.ensure()?, WRK.ensure()?);
    let folder = workspace.made("bench");
    let ports = free_ports(ENGINES + 3)?;
    let (engines, rest) = ports.split_at(ENGINES);
    let [baseline, listen, admin] = rest else { return Ok(()) };
    let engines_conf = nginx::engines(&folder.join("engines"), engines)?;
    let baseline_conf = nginx::round_robin(&folder.join("baseline"), *baseline, engines)?;
    let first = engines.first().copied().unwrap_or_default();
    let _engines = Server::start(
        LOAD_CPU,
        &[nginx_program, "-c", &text(&engines_conf)],
        first,
        &folder.join("engines/log"),
    )?;
    let baseline_server = Server::start(
        PROXY_CPU,
        &[nginx_program, "-c", &text(&baseline_conf)],
        *baseline,
        &folder.join("baseline/log"),
    )?;
    let router = workspace.release("sluicegate");
    let mut command = vec![text(&router), "serve".into()];
    command.extend(["--listen".into(), address(*listen), "--admin".into(), address(*admin)]);
    command.extend(engines.iter().flat_map(|port| ["--backend".into(), address(*port)]));
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let router_server = Server::start(PROXY_CPU, &command, *listen, &folder.join("router.log"))?;

    println!(
        "| body | nginx, µs CPU a request | sluicegate, µs CPU a request | ratio (median of {ROUNDS} pairs) |"
    );
    println!("|---|---:|---:|---:|");
    for body in BODIES {
        let script = script(&folder, &body)?;
        let mut pairs = Vec::new();
        for round in 0..=ROUNDS {
            let a = cost(wrk, &baseline_server, *baseline, &script)?;
            let b = cost(wrk, &router_server, *listen, &script)?;
            say(format!("{}: nginx {a:.1} µs, sluicegate {b:.1} µs", body.name));
            // The first pair warms up.
            if round > 0 {
                pairs.push((a, b));
            }
        }
        let nginx = median(pairs.iter().map(|(a, _)| *a).collect());
        let ours = median(pairs.iter().map(|(_, b)| *b).collect());
        let ratio = median(pairs.iter().map(|(a, b)| b / a).collect());
        println!("| {} | {nginx:.1} | {ours:.1} | {ratio:.2} |", body.name);
    }
    Ok(())
}

/// Microseconds of the server's CPU time a request.
fn cost(wrk: &str, server: &Server, port: u16, script: &Path) -> Result<f64, Error> {
    let before = server.cpu_seconds();
    let mut load = Command::new("taskset");
    load.args(["-c", &LOAD_CPU.to_string(), wrk, "-t1"])
        .arg(format!("-c{CONNECTIONS}"))
        .arg(format!("-d{SECONDS}s"))
        .arg("-s")
        .arg(script)
        .arg(format!("http://127.0.0.1:{port}/v1/chat/completions"));
    let output = load.output().map_err(Error::io(format!("cannot run {}", show(&load))))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let requests =
        said.lines().find_map(|line| line.trim().split_once(" requests in")?.0.parse::<f64>().ok());
    match requests.filter(|_| !said.contains("Non-2xx")) {
        Some(requests) if requests > 0.0 => Ok((server.cpu_seconds() - before) * 1e6 / requests),
        _ => Err(Error::Failed { program: show(&load), status: said.into_owned() }),
    }
}

/// A wrk script whose requests share a system prompt and end in one of many questions.
fn script(folder: &Path, body: &Body) -> Result<PathBuf, Error> {
    let path = folder.join(format!("{}.lua", body.bytes));
    let text = format!(
        "local pad = string.rep('You are a helpful assistant. ', {})\nlocal n = 0\n\
         wrk.method = 'POST'\nwrk.headers['content-type'] = 'application/json'\n\
         request = function()\n n = n + 1\n \
         return wrk.format(nil, nil, nil, '{{\"model\":\"tiny\",\"max_tokens\":4,\"messages\":[{{\"role\":\"system\",\"content\":\"' .. pad .. '\"}},{{\"role\":\"user\",\"content\":\"question ' .. (n % 1000) .. '\"}}]}}')\nend\n",
        body.bytes / 29
    );
    std::fs::write(&path, text).map_err(Error::io(format!("cannot write {}", path.display())))?;
    Ok(path)
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

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
