//! A program that runs as long as its handle.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::wait;

/// A running program. Its output is kept; when it is dropped the program is killed, and its output is
/// shown if the test is failing.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    child: Child,
    ends_with_stdin: bool,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        // The other end of its standard input is ours: programs that watch it end with us.
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdout = keep(child.stdout.take().unwrap());
        let stderr = keep(child.stderr.take().unwrap());
        Self { name, child, ends_with_stdin: false, stdout, stderr }
    }

    /// It cleans up behind itself when its standard input closes, and is waited for instead of killed.
    pub(crate) fn ends_with_stdin(mut self) -> Self {
        self.ends_with_stdin = true;
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until it prints a line that begins with `head` on its standard output; says what follows.
    pub(crate) async fn line(&mut self, head: &str) -> String {
        let what = format!("{} prints `{head}…`", self.name);
        wait::until_some(&what, async || {
            let found = self
                .stdout
                .lock()
                .unwrap()
                .lines()
                .find_map(|line| line.strip_prefix(head).map(|rest| rest.trim().to_owned()));
            if found.is_none()
                && let Some(status) = self.child.try_wait().unwrap()
            {
                panic!("{} ended ({status}) before it printed `{head}…`:\n{}", self.name, self.stderr());
            }
            found
        })
        .await
    }

    /// Waits until it ends by itself; says whether with success.
    pub(crate) async fn ended(&mut self) -> bool {
        let what = format!("{} ends", self.name);
        wait::until_some(&what, async || self.child.try_wait().unwrap()).await.success()
    }

    /// Whether it is still there.
    pub(crate) fn running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.ends_with_stdin {
            drop(self.child.stdin.take());
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        if thread::panicking() {
            let (stdout, stderr) = (self.stdout.lock().unwrap(), self.stderr.lock().unwrap());
            eprintln!("---- {} printed\n{stdout}\n---- and on stderr\n{stderr}----", self.name);
        }
    }
}

/// Reads to the end on a thread of its own.
fn keep(output: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let copy = Arc::clone(&kept);
    thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            copy.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    kept
}
