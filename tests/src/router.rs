//! The built binary, running.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::child::Program;
use crate::engine::Engine;
use crate::request::{Request, get, post};
use crate::{PluginDir, places, wait};

/// A free port.
const ANYWHERE: &str = "127.0.0.1:0";

/// A router on free ports; killed when it is dropped, and its log shown if the test is failing.
#[derive(Debug)]
pub struct Router {
    program: Program,
    url: String,
    admin: String,
    /// Where it runs; goes with it.
    folder: TempDir,
}

/// A router to be started.
#[derive(Debug)]
#[must_use = "it is not started yet"]
pub struct RouterBuilder {
    /// A program that runs it, with arguments.
    through: Vec<String>,
    flags: Vec<String>,
    config: Option<String>,
    listen: String,
    ready: bool,
}

impl Router {
    /// One before these engines, with flags alone and no configuration file.
    pub fn to(engines: &[&Engine]) -> RouterBuilder {
        Self::to_urls(&engines.iter().map(|engine| engine.url()).collect::<Vec<_>>())
    }

    /// The same, before anything that has a URL.
    pub fn to_urls(urls: &[String]) -> RouterBuilder {
        let flags = urls.iter().flat_map(|url| ["--backend".to_owned(), url.clone()]).collect();
        RouterBuilder { through: Vec::new(), flags, config: None, listen: ANYWHERE.into(), ready: true }
    }

    /// One with this configuration file. `[scrape]` is set so that engines are asked twenty times a second,
    /// unless the text has its own.
    pub fn with(config: impl Into<String>) -> RouterBuilder {
        let (through, flags, config) = (Vec::new(), Vec::new(), Some(config.into()));
        RouterBuilder { through, flags, config, listen: ANYWHERE.into(), ready: true }
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The URL of a path of the admin API.
    #[must_use]
    pub fn admin_url(&self, path: &str) -> String {
        format!("{}{path}", self.admin)
    }

    /// A chat of one message with the model `tiny`.
    pub fn chat(&self, message: &str) -> Request {
        self.post(
            "/v1/chat/completions",
            json!({"model": "tiny", "messages": [{"role": "user", "content": message}], "max_tokens": 16})
                .to_string(),
        )
    }

    /// A `POST` of a body.
    pub fn post(&self, path: &str, body: impl Into<bytes::Bytes>) -> Request {
        // Through a Unix socket no host is meant.
        if self.url.starts_with("unix:") {
            return post(format!("http://localhost{path}"), body);
        }
        post(self.url(path), body)
    }

    /// A `GET`.
    pub fn get(&self, path: &str) -> Request {
        get(self.url(path))
    }

    /// What it wrote to its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.program.stderr()
    }

    /// Resident memory, bytes.
    ///
    /// # Panics
    /// When the process is gone.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// How often a thread of this name has gone to sleep so far.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn sleeps_of(&self, thread: &str) -> u64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.program.pid())).unwrap();
        let status = tasks.flatten().find_map(|task| {
            let name = fs::read_to_string(task.path().join("comm")).ok()?;
            (name.trim() == thread).then(|| fs::read_to_string(task.path().join("status")).ok())?
        });
        let status = status.unwrap_or_else(|| panic!("no thread is named {thread}"));
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    /// Writes another configuration over its file, as an editor does: whole, by a rename.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write_config(&self, config: &str) {
        let file = self.folder.path().join(CONFIG);
        let part = file.with_extension("part");
        fs::write(&part, complete(config)).unwrap();
        fs::rename(part, file).unwrap();
    }

    /// Where it runs, and keeps its state unless its configuration says otherwise.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sends it a signal, such as `HUP`.
    ///
    /// # Panics
    /// When there is no `kill` on this machine.
    pub fn signal(&self, name: &str) {
        let pid = self.program.pid().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// The process that it is.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Whether the process is still there.
    pub fn running(&mut self) -> bool {
        self.program.running()
    }

    /// Asks it to end, as a service manager does, and waits for it; says whether it ended well.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn terminate(&mut self) -> bool {
        self.ask_to_end();
        self.program.ended().await
    }

    /// Waits until it ends by itself; says whether well.
    pub async fn ended(&mut self) -> bool {
        self.program.ended().await
    }

    /// Asks it to end and does not wait.
    ///
    /// # Panics
    /// When there is no `kill` on this machine.
    pub fn ask_to_end(&self) {
        self.signal("TERM");
    }
}

impl RouterBuilder {
    /// With a watched directory.
    pub fn plugins(self, folder: &PluginDir) -> Self {
        self.plugins_at(folder.path())
    }

    /// Watching the directory at a path.
    pub fn plugins_at(self, path: &Path) -> Self {
        let path = path.to_str().unwrap().to_owned();
        self.flag("--plugins").flag(&path)
    }

    /// Run by another program, such as one that takes rights away, which must become the router and not
    /// wait for it.
    pub fn through(mut self, command: &[&str]) -> Self {
        self.through = command.iter().map(|part| (*part).to_owned()).collect();
        self
    }

    /// Where clients connect.
    pub fn listen(mut self, place: &str) -> Self {
        self.listen = place.to_owned();
        self
    }

    /// With another flag.
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Does not wait until every pool has an endpoint that is up.
    pub fn unready(mut self) -> Self {
        self.ready = false;
        self
    }

    /// Starts it and waits until it listens, and is ready.
    ///
    /// # Panics
    /// When it is not; says what it wrote to its log.
    pub async fn start(self) -> Router {
        let folder = TempDir::new().unwrap();
        let mut command = match self.through.split_first() {
            None => Command::new(places::router()),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).arg(places::router());
                command
            }
        };
        command.args(["serve", "--listen", &self.listen, "--admin", "127.0.0.1:0"]).args(&self.flags);
        command.current_dir(folder.path()).env_remove("RUST_LOG");
        if let Some(config) = &self.config {
            let file = folder.path().join(CONFIG);
            fs::write(&file, complete(config)).unwrap();
            command.arg("--config").arg(&file);
        }
        let mut program = Program::start(&mut command);
        let url = program.line("listening on ").await;
        let admin = program.line("admin on ").await;
        let router = Router { program, url, admin, folder };
        if self.ready {
            wait::until("the router is ready", async || router.admin("/readyz").await.status() == 200).await;
        }
        router
    }
}

/// The name of its configuration file.
const CONFIG: &str = "sluicegate.toml";

fn complete(config: &str) -> String {
    if config.contains("[scrape]") {
        return config.to_owned();
    }
    format!("{config}\n[scrape]\ninterval_ms = 50\n")
}
