//! What was done to a running router, by whom and when: lines of JSON that are only ever added to a file.
//!
//! A thread of its own writes, so that a slow disk delays no request and no swap; who must know that a line is on the
//! disk waits for [`Audit::flush`]. The file is private to its owner. Over [`MAX_BYTES`] it is renamed and a new one
//! begun; [`KEPT`] old ones stay. A line that cannot be written is told in the log and counted, and what it speaks of
//! happens all the same: in an incident, an operator must be able to act with a full disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Bytes of one file at most.
const MAX_BYTES: u64 = 8 << 20;
/// Old files that stay.
const KEPT: u32 = 3;
/// Lines that may wait to be written.
const WAITING: usize = 1_024;
/// Characters of a text that somebody else chose.
const MAX_TEXT: usize = 256;

/// Something that was done, or tried.
#[derive(Debug, Clone, Serialize)]
pub struct Deed {
    /// Milliseconds since 1970.
    at_unix_ms: u64,
    /// Such as `plugin.promote`.
    what: &'static str,
    /// The plugin, endpoint or file that it was done to.
    on: Box<str>,
    /// `token:NAME`, `loopback`, or the part of the router that did it by itself.
    by: Box<str>,
    /// From where, when somebody asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<Box<str>>,
    /// SHA-256 of the version that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Box<str>>,
    /// Whether it was done.
    done: bool,
    /// Why, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<Box<str>>,
}

impl Deed {
    /// Something that was just done to `on`.
    #[must_use]
    pub fn new(what: &'static str, on: &str, by: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            at_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            what,
            on: short(on),
            by: by.into(),
            peer: None,
            digest: None,
            done: true,
            why: None,
        }
    }

    /// Asked for from this address.
    #[must_use]
    pub fn from(self, peer: &str) -> Self {
        Self { peer: Some(peer.into()), ..self }
    }

    /// About the version with this digest.
    #[must_use]
    pub fn version(self, digest: &str) -> Self {
        Self { digest: Some(digest.into()), ..self }
    }

    /// For this reason.
    #[must_use]
    pub fn because(self, why: &str) -> Self {
        Self { why: Some(short(why)), ..self }
    }

    /// It was tried and not done.
    #[must_use]
    pub fn failed(self) -> Self {
        Self { done: false, ..self }
    }
}

fn short(text: &str) -> Box<str> {
    text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or_default().into()
}

/// The file, and the thread that writes it.
#[derive(Debug)]
pub struct Audit {
    to: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<()>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Audit {
    /// Writes to `audit.jsonl` in this folder, which is made with the first line.
    ///
    /// # Errors
    /// When there is no thread to write on.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let (to, from) = sync_channel(WAITING);
        let lost = Arc::<AtomicU64>::default();
        let (path, counted) = (folder.join("audit.jsonl"), Arc::clone(&lost));
        let write = move || write_all(&path, &from, &counted);
        let writer = std::thread::Builder::new().name("audit".into()).spawn(write)?;
        Ok(Self { to: Some(to), writer: Some(writer), lost })
    }

    /// Writes a line, soon.
    pub fn note(&self, deed: &Deed) {
        let Ok(mut line) = serde_json::to_vec(deed) else { return };
        line.push(b'\n');
        let sent = self.to.as_ref().map(|to| to.try_send(Message::Line(line)));
        if !matches!(sent, Some(Ok(()))) {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all that was noted before is on the disk, or could not be written.
    pub fn flush(&self) {
        let (done, written) = sync_channel(1);
        if self.to.as_ref().is_some_and(|to| to.send(Message::Flush(done)).is_ok()) {
            let _ = written.recv();
        }
    }

    /// Lines that could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

impl Drop for Audit {
    /// What was noted is written before the process goes.
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn write_all(path: &Path, from: &Receiver<Message>, lost: &AtomicU64) {
    for message in from {
        match message {
            Message::Line(line) => {
                if let Err(error) = add(path, &line, MAX_BYTES) {
                    lost.fetch_add(1, Relaxed);
                    let line = String::from_utf8_lossy(&line);
                    tracing::error!(file = %path.display(), %error, "a line of the audit is lost: {}", line.trim_end());
                }
            }
            Message::Flush(done) => _ = done.send(()),
        }
    }
}

/// Adds a line and waits for the disk. The file is opened each time: lines are rare, and somebody may have moved it.
fn add(path: &Path, line: &[u8], max_bytes: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    if length > 0 && length + line.len() as u64 > max_bytes {
        drop(file);
        rotate(path)?;
        file = open(path)?;
    } else if length > 0 && !ends_in_line(&mut file)? {
        // The process ended within the line before.
        file.write_all(b"\n")?;
    }
    file.write_all(line)?;
    file.sync_data()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn ends_in_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

fn rotate(path: &Path) -> io::Result<()> {
    let old = |n: u32| PathBuf::from(format!("{}.{n}", path.display()));
    for n in (1..KEPT).rev() {
        match std::fs::rename(old(n), old(n + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, old(1))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_are_added_whole_and_the_file_is_its_owners() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let audit = Audit::start(&folder).unwrap();
        audit.note(&Deed::new("plugin.promote", "mine", "token:ops").from("127.0.0.1:5").version("ab"));
        audit.note(
            &Deed::new("plugin.rollback", &"é".repeat(1_000), "guardrails").because("herding").failed(),
        );
        audit.flush();
        let path = folder.join("audit.jsonl");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let lines = fs::read_to_string(&path).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["what"], &lines[0]["done"]), (&"plugin.promote".into(), &true.into()));
        assert_eq!((&lines[0]["by"], &lines[0]["peer"]), (&"token:ops".into(), &"127.0.0.1:5".into()));
        assert!(lines[1]["on"].as_str().unwrap().len() <= MAX_TEXT);
        assert_eq!((&lines[1]["why"], &lines[1]["done"]), (&"herding".into(), &false.into()));
        drop(audit);
        // A restart adds, and begins a line of its own after one that was cut off.
        fs::write(&path, "{\"cut\":").unwrap();
        let audit = Audit::start(&folder).unwrap();
        audit.note(&Deed::new("endpoint.drain", "a:1", "loopback"));
        drop(audit);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn it_is_bounded_and_the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        for n in 0..20 {
            add(&path, format!("line {n:02}\n").as_bytes(), 16).unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 18\nline 19\n");
        assert_eq!(fs::read_to_string(dir.path().join("audit.jsonl.3")).unwrap(), "line 12\nline 13\n");
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("state"), "a file").unwrap();
        let audit = Audit::start(&dir.path().join("state")).unwrap();
        audit.note(&Deed::new("endpoint.drain", "a:1", "loopback"));
        audit.flush();
        assert_eq!(audit.lost(), 1);
    }
}
