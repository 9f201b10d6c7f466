//! The process that compiles, or makes a component of a core module: this program, run again with a hidden command.
//!
//! The bytes go in by standard input, the sealed code or the component comes out by standard output, and what is
//! wrong by standard error. It gets nothing of our environment and no file of ours, bounds itself before it reads
//! ([`super::limits`]), and is killed when it takes too long by the clock or when this process ends. How it
//! ended says what was wrong; nothing that it does can do more harm than that.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::Signal;

use super::CompileError;
use super::limits::Limits;
use super::sealed::Sealed;
use crate::plugin::artifact::{ArtifactError, wrap};
use crate::plugin::engine::engine;

/// By the clock it may take this many times its CPU time, because it waits for the processor like others.
const PATIENCE: u32 = 10;
/// The allocator else reserves a GiB of address space at once, which the bound on it would count.
const ALLOCATOR: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "0");
/// Bytes of what it says on standard error that are kept.
const MAX_WORDS: u64 = 4 * 1024;
/// Components from here on are large: Python and JavaScript guests, with some ten seconds each.
const LARGE: usize = 1 << 20;
/// Large ones at a time, and others. They do not wait for each other's kind.
const AT_ONCE: [usize; 2] = [2, 4];

/// This program, as it was when it started: on Linux that is so even when its file has been replaced.
///
/// # Errors
/// When the system does not say.
pub fn program() -> std::io::Result<PathBuf> {
    let link = Path::new("/proc/self/exe");
    if link.exists() { Ok(link.into()) } else { std::env::current_exe() }
}

/// What the process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// From a component to sealed code.
    Compile,
    /// From a core module to a component.
    Wrap,
}

/// Runs the processes that compile.
#[derive(Debug)]
pub(super) struct Children {
    program: PathBuf,
    limits: Mutex<Limits>,
    large: Seats,
    small: Seats,
}

impl Children {
    pub(super) fn new(program: PathBuf, limits: Limits) -> Self {
        let [large, small] = AT_ONCE.map(Seats::new);
        Self { program, limits: Mutex::new(limits), large, small }
    }

    /// Bounds what is compiled from now on.
    pub(super) fn set_limits(&self, limits: Limits) {
        *self.limits.lock() = limits;
    }

    fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    /// Compiles. Blocks until it is done, killed, or dead.
    pub(super) fn compile(&self, component: &[u8]) -> Result<Sealed, CompileError> {
        self.work(component, Work::Compile).map(Sealed::from_bytes)
    }

    /// Makes a component of a core module. Blocks until it is done, killed, or dead.
    pub(super) fn wrap(&self, module: &[u8]) -> Result<Vec<u8>, CompileError> {
        self.work(module, Work::Wrap)
    }

    fn work(&self, bytes: &[u8], work: Work) -> Result<Vec<u8>, CompileError> {
        let seats = if bytes.len() >= LARGE { &self.large } else { &self.small };
        let _seat = seats.take();
        let ended = self.run(bytes, work).map_err(CompileError::Start)?;
        match ended.problem(self.limits()) {
            None => Ok(ended.code),
            Some(problem) => Err(problem),
        }
    }

    fn run(&self, component: &[u8], work: Work) -> std::io::Result<Ended> {
        let mut child = Killed(self.command(work).spawn()?);
        let (Some(mut stdin), Some(mut stdout), Some(mut stderr)) =
            (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take())
        else {
            return Err(std::io::Error::other("it has no pipes"));
        };
        // Nothing is sent: both readers hold an end until they have read all.
        let (reading, read) = channel::<()>();
        let also_reading = reading.clone();
        thread::scope(|scope| {
            let named = |name: &str| thread::Builder::new().name(name.into());
            // A child that died does not read to the end; how it ended says more than that.
            named("compile-in").spawn_scoped(scope, move || _ = stdin.write_all(component))?;
            let code = named("compile-out").spawn_scoped(scope, move || {
                let _reading = reading;
                let mut code = Vec::new();
                stdout.read_to_end(&mut code).map(|_| code)
            })?;
            let words = named("compile-err").spawn_scoped(scope, move || {
                let _reading = also_reading;
                let mut words = Vec::new();
                let _ = stderr.by_ref().take(MAX_WORDS).read_to_end(&mut words);
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                words
            })?;
            let clock = Duration::from_secs(self.limits().cpu_s).saturating_mul(PATIENCE);
            let late = read.recv_timeout(clock) == Err(RecvTimeoutError::Timeout);
            if late {
                child.0.kill()?;
            }
            let status = child.0.wait()?;
            let gone = |_| std::io::Error::other("a thread that read from it ended early");
            let words = String::from_utf8_lossy(&words.join().map_err(gone)?).trim().to_owned();
            Ok(Ended { status, late, code: code.join().map_err(gone)??, words })
        })
    }

    fn command(&self, work: Work) -> Command {
        use std::os::unix::process::CommandExt as _;
        let Limits { cpu_s, memory_mib } = self.limits();
        let mut command = Command::new(&self.program);
        command
            .arg0("sluicegate")
            .args(["plugin", "compile"])
            .args(["--cpu-s", &cpu_s.to_string(), "--memory-mib", &memory_mib.to_string()])
            .args((work == Work::Wrap).then_some("--wrap"))
            .env_clear()
            .envs([ALLOCATOR])
            .current_dir("/")
            // A signal from the terminal is for the router; this one ends with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Not left behind, whatever went wrong.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How the process ended.
struct Ended {
    status: ExitStatus,
    /// It was killed for the time that it took by the clock.
    late: bool,
    code: Vec<u8>,
    words: String,
}

impl Ended {
    fn problem(&self, limits: Limits) -> Option<CompileError> {
        use std::os::unix::process::ExitStatusExt as _;
        if self.status.success() {
            return None;
        }
        let out_of_memory = ["memory allocation of", "Cannot allocate memory", "out of memory"]
            .iter()
            .any(|words| self.words.contains(words));
        Some(match (self.status.signal(), self.status.code()) {
            _ if self.late => CompileError::Time(limits.cpu_s),
            (Some(signal), _) if signal == Signal::XCPU.as_raw() => CompileError::Time(limits.cpu_s),
            _ if out_of_memory => CompileError::Memory(limits.memory_mib),
            (_, Some(1)) => CompileError::Invalid(self.words.clone()),
            // What touches memory that it did not get has no words for it.
            (Some(signal), _) if signal == Signal::SEGV.as_raw() => CompileError::Died(format!(
                "{}; perhaps it had too little memory: see `plugins.compile_mib`",
                self.status
            )),
            _ if self.words.is_empty() => CompileError::Died(self.status.to_string()),
            _ => CompileError::Died(format!("{}: {}", self.status, self.words)),
        })
    }
}

/// What runs in the process: from standard input to standard output, within `limits`.
#[must_use]
pub fn main(limits: Limits, work: Work) -> ExitCode {
    match run(limits, work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(limits: Limits, work: Work) -> Result<(), String> {
    limits.apply().map_err(|error| format!("it cannot bound itself: {error}"))?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    let made = match work {
        Work::Compile => compile(&bytes)?,
        Work::Wrap => wrap(&bytes).map_err(|error| match error {
            ArtifactError::Wrap(why) => why,
            other => other.to_string(),
        })?,
    };
    std::io::stdout().lock().write_all(&made).map_err(|error| error.to_string())
}

fn compile(component: &[u8]) -> Result<Vec<u8>, String> {
    let engine = engine().map_err(|error| format!("{error:#}"))?;
    let sealed = Sealed::compile(&engine, component).map_err(|error| format!("{error:#}"))?;
    Ok(sealed.as_bytes().to_vec())
}

/// Those who may run at once.
#[derive(Debug)]
struct Seats {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Seat<'a>(&'a Seats);

impl Seats {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), freed: Condvar::new() }
    }

    fn take(&self) -> Seat<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Seat(self)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}
