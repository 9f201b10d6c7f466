//! Routers that are measured: ours in several set-ups, and those of others that can be installed from PyPI.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::bench::ask;
use crate::bench::process::Server;
use crate::bench::proxy::{address, text, written};
use crate::error::Error;
use crate::test_env::python_packages;
use crate::workspace::Workspace;

/// A router with a name.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The load generator goes to the engines in turn: round-robin at no cost.
    None,
    /// Ours, with these keys of the configuration.
    Ours(Cow<'static, str>),
    /// Ours with the default plugins compiled in.
    Native,
    /// Ours with the model's own tokenizer in this folder, and these keys of its pool.
    Tokens(PathBuf, &'static str),
    /// A program of a Python package, with the arguments before the ones that all of them share.
    Peer(&'static [&'static str]),
}

/// Where a router runs.
pub(crate) struct Place<'a> {
    /// Our program.
    pub(crate) program: &'a Path,
    /// The programs of others.
    pub(crate) peers: Option<&'a Path>,
    /// For its configuration and its log.
    pub(crate) folder: &'a Path,
    /// Three ports for itself.
    pub(crate) ports: [u16; 3],
    /// The processor that it has; all of them without one.
    pub(crate) cpu: Option<usize>,
}

/// Ours as it comes.
pub(crate) const OURS: Router = Router { name: "sluicegate", kind: Kind::Ours(Cow::Borrowed("")) };
/// Ours without any policy.
pub(crate) const WITHOUT_POLICIES: Router = ours(
    "sluicegate, no policies",
    "[[plugin]]\nname = \"prefix-affinity\"\nmode = \"off\"\n[[plugin]]\nname = \"fairness\"\nmode = \"off\"\n\
     [[plugin]]\nname = \"pd-split\"\nmode = \"off\"\n",
);
/// Ours with the default plugins compiled in instead of run as WebAssembly.
pub(crate) const NATIVE: Router = Router { name: "sluicegate, native policies", kind: Kind::Native };
/// Ours, to the endpoint with the fewest requests.
pub(crate) const LEAST_LOADED: Router =
    ours("least-loaded", "[[plugin]]\nname = \"prefix-affinity\"\nmode = \"off\"\n");
/// No router: the load generator goes to the engines in turn.
pub(crate) const ROUND_ROBIN: Router = Router { name: "round-robin", kind: Kind::None };
/// That of SGLang.
pub(crate) const SGLANG: Router =
    Router { name: "sglang-router", kind: Kind::Peer(&["sglang-router", "launch"]) };
/// That of vLLM.
pub(crate) const VLLM: Router = Router { name: "vllm-router", kind: Kind::Peer(&["vllm-router"]) };
/// The gateway that goes on from SGLang's. Its command has the name of one of SGLang's, so its module is run.
pub(crate) const SMG: Router = Router {
    name: "smg",
    kind: Kind::Peer(&[
        "python",
        "-m",
        "smg.cli",
        "launch",
        "--backend",
        "vllm",
        "--disable-tokenizer-autoload",
    ]),
};

const fn ours(name: &'static str, configuration: &'static str) -> Router {
    Router { name, kind: Kind::Ours(Cow::Borrowed(configuration)) }
}

/// A router that runs.
pub(crate) struct Started {
    /// Where requests go.
    pub(crate) urls: Vec<String>,
    pub(crate) server: Option<Server>,
    /// Where ours tells how it fared.
    pub(crate) admin: Option<u16>,
}

/// Installs the routers of others, if any are wanted; says where their programs are.
pub(crate) fn install(workspace: &Workspace, wanted: bool) -> Result<Option<PathBuf>, Error> {
    if !wanted {
        return Ok(None);
    }
    let venv = workspace.made("test-env").join("peers");
    python_packages(&venv, &workspace.root().join("tests/real/peers/requirements.txt"), &[])?;
    Ok(Some(venv.join("bin")))
}

impl Router {
    /// Ours with the tokenizer of a folder, in front of engines that publish what they cache.
    pub(crate) fn precise(tokenizer: PathBuf) -> Self {
        Self { name: "sluicegate, precise", kind: Kind::Tokens(tokenizer, "kv_events = \"auto\"") }
    }

    /// Ours with the tokenizer of a folder, which believes that engines hold what was sent there.
    pub(crate) fn tokens(tokenizer: PathBuf) -> Self {
        Self { name: "sluicegate, tokens", kind: Kind::Tokens(tokenizer, "") }
    }

    /// Ours with the configuration of a file, without addresses and endpoints.
    pub(crate) fn configured(file: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(file).map_err(Error::io(format!("cannot read {}", file.display())))?;
        Ok(Self { name: "configured", kind: Kind::Ours(Cow::Owned(text)) })
    }

    /// Whether it is ours with the default plugins compiled in.
    pub(crate) fn is_native(&self) -> bool {
        self.kind == Kind::Native
    }

    /// Whether it is a program of others.
    pub(crate) fn is_a_package(&self) -> bool {
        matches!(self.kind, Kind::Peer(_))
    }

    /// Starts it in front of engines with these URLs.
    pub(crate) fn start(&self, place: &Place<'_>, engines: Vec<String>) -> Result<Started, Error> {
        let [listen, admin, _] = place.ports;
        let urls = vec![url(listen)];
        match &self.kind {
            Kind::None => Ok(Started { urls: engines, server: None, admin: None }),
            Kind::Ours(configuration) => {
                let backends = engines.into_iter().flat_map(|url| ["--backend".into(), url]).collect();
                let server = place.start_ours(configuration, backends)?;
                Ok(Started { urls, server: Some(server), admin: Some(admin) })
            }
            Kind::Native => {
                let place = Place { program: &native(place.program), ..*place };
                let backends = engines.into_iter().flat_map(|url| ["--backend".into(), url]).collect();
                let server = place.start_ours("", backends)?;
                Ok(Started { urls, server: Some(server), admin: Some(admin) })
            }
            Kind::Tokens(tokenizer, more) => {
                let configuration = format!(
                    "[[pool]]\nname = \"p\"\nengine = \"vllm\"\n{more}\ntokenizer = {tokenizer:?}\n\
                     endpoints = {engines:?}\n"
                );
                let server = place.start_ours(&configuration, Vec::new())?;
                Ok(Started { urls, server: Some(server), admin: Some(admin) })
            }
            Kind::Peer(program) => {
                let bin = place.peers.map(Path::to_path_buf).unwrap_or_default();
                let (program, first) = program.split_first().unwrap_or((&"", &[]));
                let mut command = vec![text(&bin.join(program))];
                command.extend(first.iter().map(|word| (*word).to_owned()));
                command.extend(["--host", "127.0.0.1", "--port", &listen.to_string()].map(str::to_owned));
                command
                    .extend(["--policy", "cache_aware", "--prometheus-host", "127.0.0.1"].map(str::to_owned));
                command.extend([
                    "--prometheus-port".to_owned(),
                    admin.to_string(),
                    "--worker-urls".to_owned(),
                ]);
                command.extend(engines);
                let server = place.start(&command)?;
                ask::until_it_says_yes(listen, "/v1/models")?;
                Ok(Started { urls, server: Some(server), admin: None })
            }
        }
    }
}

impl Place<'_> {
    /// Starts ours and waits until it is ready.
    fn start_ours(&self, configuration: &str, more: Vec<String>) -> Result<Server, Error> {
        let [listen, admin, _] = self.ports;
        let file = written(self.folder, "sluicegate.toml", configuration)?;
        let mut command = vec![text(self.program), "serve".into(), "--config".into(), text(&file)];
        command.extend(["--listen".into(), address(listen), "--admin".into(), address(admin)]);
        command.extend(more);
        let server = self.start(&command)?;
        ask::until_it_says_yes(admin, "/readyz")?;
        Ok(server)
    }

    /// Starts a program that listens at the first of the ports.
    pub(crate) fn start(&self, command: &[String]) -> Result<Server, Error> {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let (port, log) = (self.ports[0], self.folder.join("log"));
        match self.cpu {
            Some(cpu) => Server::start(cpu, &command, port, &log),
            None => Server::anywhere(&command, port, &log),
        }
    }
}

/// Our program with the default plugins compiled in, beside the one without.
fn native(program: &Path) -> PathBuf {
    program.with_file_name("examples").join("native")
}

fn url(port: u16) -> String {
    format!("http://{}", address(port))
}
