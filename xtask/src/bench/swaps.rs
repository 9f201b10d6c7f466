//! What clients notice of a policy that is swapped under load: p99 while it is, against p99 while it is not.
//!
//! Load comes at its own times, whatever is answered, at a rate that leaves half of the machine free. Quiet windows
//! and windows of swaps take turns, because a shared machine drifts: what is told is the median of the ratios of
//! neighbours. Engines answer at once, so that all of the time is the router's and the machine's. Every swap brings
//! bytes that were never seen, by renaming, and waits until they are in force.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::ask::{self, number};
use super::nginx;
use super::process::{Server, cpu_seconds_of_the_dead};
use super::proxy::{address, free_ports, median, text};
use super::watched::Watched;
use crate::error::Error;
use crate::machine::NGINX;
use crate::run::{say, show};
use crate::workspace::Workspace;

/// A policy of every request.
const POLICY: &str = "prefix-affinity";
const ENGINES: usize = 4;
/// Requests a second at which the cost of one is measured first.
const TRIAL_RATE: f64 = 200.0;
/// How long a window is.
const SECONDS: u64 = 15;
/// The share of the machine that may be busy.
const BUSY: f64 = 0.5;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Options {
    /// How many swaps at least.
    pub(crate) swaps: u64,
    /// After how many versions the first comes again, which then need not be compiled.
    pub(crate) versions: u32,
    /// Requests a second; as many as leave half of the machine free when not given.
    pub(crate) rate: Option<f64>,
    /// Whether windows without swaps are left out, as where only failures and memory count.
    pub(crate) no_quiet: bool,
    /// Whether to print JSON.
    pub(crate) json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { swaps: 200, versions: u32::MAX, rate: None, no_quiet: false, json: false }
    }
}

/// What came of a window.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    requests: f64,
    failed: f64,
    p50: f64,
    p99: f64,
    /// Share of the machine that router, engines and load used.
    busy: f64,
    swaps: u64,
}

struct Bench {
    servers: [Server; 2],
    load: PathBuf,
    listen: u16,
    admin: u16,
    watched: Watched,
}

/// Measures and prints a table, or JSON.
pub(crate) fn measure(workspace: &Workspace, options: Options) -> Result<(), Error> {
    let folder = workspace.made("bench-swaps");
    let ports = free_ports(ENGINES + 2)?;
    let (engines, rest) = ports.split_at(ENGINES);
    let [listen, admin] = *rest else { return Ok(()) };
    let engines_conf = nginx::engines(&folder.join("engines"), engines)?;
    let first = engines.first().copied().unwrap_or_default();
    let program = NGINX.ensure()?;
    let engines_server =
        Server::anywhere(&[program, "-c", &text(&engines_conf)], first, &folder.join("engines/log"))?;
    let policy = workspace.root().join("target/plugins").join(format!("{POLICY}.wasm"));
    let watched = Watched::new(folder.join("plugins"), &policy, POLICY, admin, options.versions)?;
    let mut command = vec![text(&workspace.release("sluicegate")), "serve".into()];
    command.extend(["--listen".into(), address(listen), "--admin".into(), address(admin)]);
    command.extend(["--plugins".into(), text(&folder.join("plugins"))]);
    command.extend(engines.iter().flat_map(|port| ["--backend".into(), address(*port)]));
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let router = Server::anywhere(&command, listen, &folder.join("router.log"))?;
    let servers = [router, engines_server];
    let mut bench = Bench { servers, load: workspace.release("sluicegate-sim"), listen, admin, watched };
    bench.run(options)
}

impl Bench {
    fn run(&mut self, options: Options) -> Result<(), Error> {
        ask::until_it_says_yes(self.admin, "/readyz")?;
        let rate = options.rate.map_or_else(|| self.rate(), Ok)?;
        let mut pairs = Vec::new();
        let (mut done, mut resident) = (0, Vec::new());
        while done < options.swaps || pairs.len() < 2 {
            let quiet = if options.no_quiet { Window::default() } else { self.window(rate, false)? };
            let swapping = self.window(rate, true)?;
            done += swapping.swaps;
            resident.push(self.servers.first().map_or(0.0, Server::resident_mib));
            say(format!(
                "p99 {:.2} ms, with {} swaps {:.2} ms; busy {:.0} %, {:.0} %; {done} of {} swaps",
                quiet.p99,
                swapping.swaps,
                swapping.p99,
                quiet.busy * 100.0,
                swapping.busy * 100.0,
                options.swaps
            ));
            pairs.push((quiet, swapping));
        }
        print(rate, &pairs, &resident, options);
        Ok(())
    }

    /// Requests a second that leave half of the machine free.
    fn rate(&mut self) -> Result<f64, Error> {
        let mut rate = TRIAL_RATE;
        // Twice, because the first requests cost more than the later ones.
        for _ in 0..2 {
            let busy = self.window(rate, false)?.busy;
            let next = (rate * BUSY / busy.max(1e-3)).floor();
            say(format!("{rate} requests/s use {:.1} % of the machine; going on at {next}/s", busy * 100.0));
            rate = next;
        }
        Ok(rate)
    }

    fn window(&mut self, rate: f64, swapping: bool) -> Result<Window, Error> {
        let (begin, before) = (Instant::now(), self.cpu_seconds());
        let mut command = Command::new(&self.load);
        command
            .args(["load", "--url", &format!("http://{}", address(self.listen))])
            .args(["--rate", &rate.to_string(), "--duration", &SECONDS.to_string()])
            .args(["--groups", "64", "--prefix-tokens", "256", "--question-tokens", "32"])
            .args(["--stream", "false", "--json", "--allow-failures"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let shown = show(&command);
        let mut load = command.spawn().map_err(Error::io(format!("cannot run {shown}")))?;
        let mut swaps = 0;
        while swapping && running(&mut load) && begin.elapsed() < Duration::from_secs(SECONDS) {
            self.watched.swap()?;
            swaps += 1;
        }
        let output = load.wait_with_output().map_err(Error::io(format!("cannot wait for {shown}")))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let busy = (self.cpu_seconds() - before) / begin.elapsed().as_secs_f64() / cores;
        let window = read(&said).map(|window| Window { busy, swaps, ..window });
        window.ok_or_else(|| Error::Failed { program: shown, status: said.into_owned() })
    }

    fn cpu_seconds(&self) -> f64 {
        self.servers.iter().map(Server::cpu_seconds).sum::<f64>() + cpu_seconds_of_the_dead()
    }
}

fn running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// Reads the report of the load generator.
fn read(report: &str) -> Option<Window> {
    let latency = report.split_once("\"latency_ms\"")?.1;
    Some(Window {
        requests: number(report, "requests")?,
        failed: number(report, "failed")?,
        p50: number(latency, "p50")?,
        p99: number(latency, "p99")?,
        ..Window::default()
    })
}

fn print(rate: f64, pairs: &[(Window, Window)], resident: &[f64], options: Options) {
    let of = |value: fn(&(Window, Window)) -> f64| median(pairs.iter().map(value).collect());
    let sum = |value: fn(&Window) -> f64| pairs.iter().map(|(a, b)| value(a) + value(b)).sum::<f64>();
    let swaps: u64 = pairs.iter().map(|(_, swapping)| swapping.swaps).sum();
    let ratio = of(|(quiet, swapping)| swapping.p99 / quiet.p99);
    let (quiet, swapping) = (of(|pair| pair.0.p99), of(|pair| pair.1.p99));
    let (requests, failed) = (sum(|window| window.requests), sum(|window| window.failed));
    let (busy_quiet, busy_swapping) = (of(|pair| pair.0.busy) * 100.0, of(|pair| pair.1.busy) * 100.0);
    let memory = |place: Option<&f64>| place.copied().unwrap_or_default();
    let (early, late) = (memory(resident.first()), memory(resident.last()));
    if options.json {
        println!(
            "{{\"swaps\":{swaps},\"requests\":{requests},\"failed\":{failed},\"rate\":{rate},\
             \"p50_quiet_ms\":{:.3},\"p50_swapping_ms\":{:.3},\"p99_quiet_ms\":{quiet:.3},\
             \"p99_swapping_ms\":{swapping:.3},\"p99_ratio\":{ratio:.3},\"busy_quiet_percent\":{busy_quiet:.1},\
             \"busy_swapping_percent\":{busy_swapping:.1},\"resident_first_mib\":{early:.1},\
             \"resident_last_mib\":{late:.1}}}",
            of(|pair| pair.0.p50),
            of(|pair| pair.1.p50)
        );
        return;
    }
    println!(
        "| swaps | requests | failed | requests/s | p99 quiet, ms | p99 swapping, ms | ratio (median of {} pairs) | \
         machine busy, quiet and swapping | resident, MiB, first and last |",
        pairs.len()
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    println!(
        "| {swaps} | {requests} | {failed} | {rate} | {quiet:.2} | {swapping:.2} | {ratio:.2} | {busy_quiet:.0} %, \
         {busy_swapping:.0} % | {early:.0}, {late:.0} |"
    );
}

/// Reads `[--swaps N] [--json]`.
///
/// # Errors
/// [`Error::Usage`] when it makes no sense.
pub(crate) fn options(arguments: &[String]) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--no-quiet" => options.no_quiet = true,
            "--swaps" => options.swaps = value(argument, left.next())?,
            "--versions" => options.versions = value(argument, left.next())?,
            "--rate" => options.rate = Some(value(argument, left.next())?),
            other => return Err(Error::Usage(format!("`bench swaps` knows no `{other}`"))),
        }
    }
    Ok(options)
}

fn value<T: std::str::FromStr>(flag: &str, value: Option<&String>) -> Result<T, Error> {
    value.and_then(|value| value.parse().ok()).ok_or_else(|| Error::Usage(format!("`{flag}` needs a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_the_load_is_read() {
        let report = "{\n  \"requests\": 100,\n  \"failed\": 2,\n  \"ttft_ms\": {\"p50\": 1.0, \"p99\": 2.0},\n  \
                      \"latency_ms\": {\"p50\": 3.5, \"p90\": 4.0, \"p99\": 5.25},\n  \"requests_per_s\": 9.0\n}";
        let window = read(report).unwrap();
        assert_eq!((window.requests, window.failed, window.p50, window.p99), (100.0, 2.0, 3.5, 5.25));
        assert!(read("no report").is_none());
    }

    #[test]
    fn flags_are_read() {
        let read = |line: &str| options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(read("").unwrap(), Options::default());
        assert_eq!(
            read("--swaps 10000 --json").unwrap(),
            Options { swaps: 10_000, json: true, ..Options::default() }
        );
        assert!(read("--swaps").is_err() && read("--swap 3").is_err());
    }
}
