//! A server that is measured: started on one core, ended when it is dropped, its CPU time read from the system.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::Error;

/// Units of CPU time in a second in `/proc` (`USER_HZ`, the same on every Linux that Rust supports).
const TICKS: f64 = 100.0;

/// A program that runs until it is dropped.
pub(crate) struct Server(Child);

impl Server {
    /// Starts a program on one processor and waits until it answers at `port`.
    pub(crate) fn start(cpu: usize, command: &[&str], port: u16, log: &Path) -> Result<Self, Error> {
        let cpu = cpu.to_string();
        Self::anywhere(&[&["taskset", "-c", &cpu], command].concat(), port, log)
    }

    /// Starts a program on all processors and waits until it answers at `port`.
    pub(crate) fn anywhere(command: &[&str], port: u16, log: &Path) -> Result<Self, Error> {
        let shown = command.join(" ");
        let (program, arguments) = command.split_first().unwrap_or((&"", &[]));
        // What it keeps from run to run lies beside its log.
        let folder = log.parent().unwrap_or(Path::new("."));
        let out = fs::create_dir_all(folder).and_then(|()| fs::File::create(log));
        let out = out.map_err(Error::io(format!("cannot write {}", log.display())))?;
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            // Closed when this process ends, however it does: engines that watch it end too.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .map_err(Error::io(format!("cannot run {shown}")))?;
        let server = Self(child);
        for _ in 0..600 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
        Err(Error::Failed { program: shown, status: format!("nothing listens at {port}") })
    }

    /// Seconds of CPU time of it and its children.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let own = self.0.id().to_string();
        let Ok(processes) = fs::read_dir("/proc") else { return 0.0 };
        let stats =
            processes.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        stats.filter_map(|stat| ticks(&stat, &own)).sum::<f64>() / TICKS
    }

    /// Resident memory, MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        kib.and_then(|kib| kib.trim().parse::<f64>().ok()).unwrap_or_default() / 1024.0
    }
}

/// Seconds of CPU time of children of this process that have ended.
pub(crate) fn cpu_seconds_of_the_dead() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    fields.skip(13).take(2).filter_map(|time| time.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// User and system time in a line of `/proc/PID/stat`, if it is of `pid` or of a child of it.
fn ticks(stat: &str, pid: &str) -> Option<f64> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let is_it = head.split(' ').next() == Some(pid) || fields.get(1) == Some(&pid);
    let time = |field: usize| fields.get(field)?.parse::<f64>().ok();
    is_it.then(|| Some(time(11)? + time(12)?))?
}

impl Drop for Server {
    fn drop(&mut self) {
        // nginx's master ends its workers when it is asked to, and leaves them when it is killed.
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_process_and_its_children_count() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 3 4 50 25 0 0 20 0 1 0";
        assert_eq!(ticks(line, "42"), Some(75.0));
        assert_eq!(ticks(line, "7"), Some(75.0));
        assert_eq!(ticks(line, "8"), None);
    }
}
