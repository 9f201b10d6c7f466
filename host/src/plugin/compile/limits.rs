//! What one compilation may cost. The process that compiles sets these bounds on itself, before it reads
//! a byte of what it compiles.

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::config::CompileConfig;

/// It gets a tenth of what a thread that serves requests gets, where both want the processor: clients of a router
/// on few cores should not feel a swap. Much less would keep a small plugin waiting for minutes on a machine that
/// is full.
const NICENESS: i32 = 10;

/// Bounds of one compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU time, seconds. The system counts whole ones.
    pub cpu_s: u64,
    /// Address space, MiB: what the system can bound.
    pub memory_mib: usize,
}

impl From<CompileConfig> for Limits {
    fn from(config: CompileConfig) -> Self {
        Self { cpu_s: config.cpu.as_secs().max(1), memory_mib: config.memory_bytes >> 20 }
    }
}

impl Limits {
    /// Bounds this process, for good.
    pub(super) fn apply(self) -> std::io::Result<()> {
        // One second between the signal that says why and the one that cannot be missed.
        set(Resource::Cpu, self.cpu_s, self.cpu_s + 1)?;
        let bytes = (self.memory_mib as u64) << 20;
        set(Resource::As, bytes, bytes)?;
        // It writes to a pipe only, and leaves no core behind when it is stopped.
        set(Resource::Fsize, 0, 0)?;
        set(Resource::Core, 0, 0)?;
        // Where that is not allowed it competes; requests are served all the same.
        let _ = rustix::process::nice(NICENESS);
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        Ok(())
    }
}

fn set(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    // A limit that is already lower stays: only root may raise it.
    let now = rustix::process::getrlimit(resource);
    let lower = |wanted: u64, now: Option<u64>| Some(now.map_or(wanted, |now| now.min(wanted)));
    let maximum = lower(hard, now.maximum);
    let current = lower(soft.min(maximum.unwrap_or(soft)), now.current);
    Ok(setrlimit(resource, Rlimit { current, maximum })?)
}
