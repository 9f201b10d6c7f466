//! What clients notice of a new process: the time to the first token right after `sluicegate upgrade`, after a
//! plain restart, and after a restart that knows nothing, against the time before.
//!
//! Prompts of many groups share long beginnings, of which each engine's cache holds a part: whoever does not know where
//! they lie has them computed again elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ask::{self, number};
use super::process::Server;
use super::proxy::{address, free_ports, text};
use crate::error::Error;
use crate::run::{say, show};
use crate::workspace::Workspace;

const ENGINES: usize = 4;
/// How long a window is.
const SECONDS: u64 = 30;

/// What came of a window.
#[derive(Debug, Clone, Copy)]
struct Window {
    requests: f64,
    failed: f64,
    p50: f64,
    p90: f64,
}

struct Bench {
    router: PathBuf,
    sim: PathBuf,
    folder: PathBuf,
    config: PathBuf,
    listen: u16,
    admin: u16,
}

/// Measures and prints a table.
pub(crate) fn measure(workspace: &Workspace) -> Result<(), Error> {
    let folder = workspace.made("bench-upgrade");
    let _ = fs::remove_dir_all(folder.join("state"));
    fs::create_dir_all(&folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    let ports = free_ports(ENGINES + 2)?;
    let (engines, rest) = ports.split_at(ENGINES);
    let [listen, admin] = *rest else { return Ok(()) };
    let sim = workspace.dist("sluicegate-sim");
    let engine = |port: &u16| {
        let log = folder.join(format!("engine-{port}.log"));
        let (program, listen) = (text(&sim), address(*port));
        let command =
            [&program, "engine", "--listen", &listen, "--prefill-rate", "15000", "--num-blocks", "9600"];
        Server::anywhere(&command, *port, &log)
    };
    let _engines = engines.iter().map(engine).collect::<Result<Vec<_>, _>>()?;
    let urls: Vec<String> = engines.iter().map(|port| format!("\"http://{}\"", address(*port))).collect();
    let config = folder.join("sluicegate.toml");
    let said = format!(
        "listen = \"{}\"\nadmin = \"{}\"\nstate_dir = {:?}\n[[pool]]\nname = \"p\"\nendpoints = [{}]\n",
        address(listen),
        address(admin),
        folder.join("state"),
        urls.join(", ")
    );
    fs::write(&config, said).map_err(Error::io(format!("cannot write {}", config.display())))?;
    let bench = Bench { router: workspace.dist("sluicegate"), sim, folder, config, listen, admin };
    let mut rows = Vec::new();
    for (name, next) in [
        ("`sluicegate upgrade`", Bench::upgrade as fn(&Bench, Server) -> Result<Next, Error>),
        ("a restart", Bench::restart),
        ("a restart that knows nothing", Bench::begin_cold),
    ] {
        let router = bench.start()?;
        bench.window()?;
        let before = bench.window()?;
        let next = next(&bench, router)?;
        let after = bench.window()?;
        drop(next);
        say(format!("{name}: TTFT p90 {:.0} ms before, {:.0} ms after", before.p90, after.p90));
        rows.push((name, before, after));
    }
    print(&rows);
    Ok(())
}

/// The process that serves after the change.
enum Next {
    /// Our own.
    Ours { _router: Server },
    /// Whose place ours gave up.
    Theirs(String),
}

impl Drop for Next {
    fn drop(&mut self) {
        if let Self::Theirs(pid) = self {
            let _ = Command::new("kill").arg(&*pid).status();
            while Path::new("/proc").join(&*pid).exists() {
                std::thread::park_timeout(std::time::Duration::from_millis(50));
            }
        }
    }
}

impl Bench {
    fn start(&self) -> Result<Server, Error> {
        let (program, config) = (text(&self.router), text(&self.config));
        let command = [&program, "serve", "--config", &config];
        let router = Server::anywhere(&command, self.listen, &self.folder.join("router.log"))?;
        ask::until_it_says_yes(self.admin, "/readyz")?;
        Ok(router)
    }

    fn upgrade(&self, router: Server) -> Result<Next, Error> {
        let mut command = Command::new(&self.router);
        command.args(["upgrade", "--config"]).arg(&self.config);
        let shown = show(&command);
        let output = command.output().map_err(Error::io(format!("cannot run {shown}")))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let pid = said.split(|sign: char| !sign.is_ascii_digit()).find(|word| !word.is_empty());
        match pid.filter(|_| output.status.success()) {
            // The old one ends by itself.
            Some(pid) => {
                drop(router);
                Ok(Next::Theirs(pid.to_owned()))
            }
            None => Err(Error::Failed { program: shown, status: said }),
        }
    }

    fn restart(&self, router: Server) -> Result<Next, Error> {
        drop(router);
        Ok(Next::Ours { _router: self.start()? })
    }

    fn begin_cold(&self, router: Server) -> Result<Next, Error> {
        drop(router);
        let _ = fs::remove_file(self.folder.join("state/warm"));
        Ok(Next::Ours { _router: self.start()? })
    }

    fn window(&self) -> Result<Window, Error> {
        let mut command = Command::new(&self.sim);
        command
            .args(["load", "--url", &format!("http://{}", address(self.listen))])
            .args(["--rate", "20", "--duration", &SECONDS.to_string(), "--json", "--allow-failures"])
            .args(["--groups", "200", "--prefix-tokens", "2048", "--question-tokens", "64"])
            .args(["--output-tokens", "32"]);
        let shown = show(&command);
        let output = command.output().map_err(Error::io(format!("cannot run {shown}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        read(&said).ok_or_else(|| Error::Failed { program: shown, status: said.into_owned() })
    }
}

/// Reads the report of the load generator.
fn read(report: &str) -> Option<Window> {
    let ttft = report.split_once("\"ttft_ms\"")?.1;
    Some(Window {
        requests: number(report, "requests")?,
        failed: number(report, "failed")?,
        p50: number(ttft, "p50")?,
        p90: number(ttft, "p90")?,
    })
}

fn print(rows: &[(&str, Window, Window)]) {
    println!(
        "| after | requests | failed | TTFT p50, ms, before and after | TTFT p90, ms, before and after | ratio of p90 |"
    );
    println!("|---|---:|---:|---:|---:|---:|");
    for (name, before, after) in rows {
        println!(
            "| {name} | {} | {} | {:.1}, {:.1} | {:.1}, {:.1} | {:.2} |",
            before.requests + after.requests,
            before.failed + after.failed,
            before.p50,
            after.p50,
            before.p90,
            after.p90,
            after.p90 / before.p90
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_load_is_read() {
        let report =
            "{\"requests\": 100,\"failed\": 2,\"ttft_ms\": {\"p50\": 1.0, \"p90\": 2.5, \"p99\": 3.0}}";
        let window = read(report).unwrap();
        assert_eq!((window.requests, window.failed, window.p50, window.p90), (100.0, 2.0, 1.0, 2.5));
        assert!(read("no report").is_none());
    }
}
