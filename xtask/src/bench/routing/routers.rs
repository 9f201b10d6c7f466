//! The routers: ours in several set-ups, and those of others that can be installed from PyPI.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use crate::bench::ask;
use crate::bench::process::Server;
use crate::bench::proxy::{address, text};
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
    /// A program of a Python package, with the arguments before the ones that all of them share.
    Peer(&'static [&'static str]),
}

/// All of them; the first is what ratios are against.
pub(crate) const ROUTERS: &[Router] = &[
    Router { name: "round-robin", kind: Kind::None },
    Router {
        name: "least-loaded",
        kind: Kind::Ours(Cow::Borrowed("[[plugin]]\nname = \"prefix-affinity\"\nmode = \"off\"\n")),
    },
    Router { name: "sluicegate", kind: Kind::Ours(Cow::Borrowed("")) },
    Router { name: "sglang-router", kind: Kind::Peer(&["sglang-router", "launch"]) },
    Router { name: "vllm-router", kind: Kind::Peer(&["vllm-router"]) },
];

/// A router that runs.
pub(crate) struct Started {
    /// Where requests go.
    pub(crate) urls: Vec<String>,
    _server: Option<Server>,
}

/// Installs the routers of others, if any are wanted.
pub(crate) fn install(workspace: &Workspace, routers: &[&Router]) -> Result<Option<PathBuf>, Error> {
    if !routers.iter().any(|router| matches!(router.kind, Kind::Peer(_))) {
        return Ok(None);
    }
    let venv = workspace.made("test-env").join("peers");
    python_packages(&venv, &workspace.root().join("tests/real/peers/requirements.txt"), &[])?;
    Ok(Some(venv.join("bin")))
}

impl Router {
    /// Ours with the configuration of a file, without addresses and endpoints.
    pub(crate) fn configured(file: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(file).map_err(Error::io(format!("cannot read {}", file.display())))?;
        Ok(Self { name: "configured", kind: Kind::Ours(Cow::Owned(text)) })
    }

    /// Starts it in front of engines with these URLs; `own` are ports for itself.
    pub(crate) fn start(
        &self,
        workspace: &Workspace,
        peers: Option<&Path>,
        engines: Vec<String>,
        own: &[u16],
        folder: &Path,
    ) -> Result<Started, Error> {
        let [listen, admin, _] = *own else { return Err(Error::Usage("a router needs three ports".into())) };
        let urls = vec![url(listen)];
        match &self.kind {
            Kind::None => Ok(Started { urls: engines, _server: None }),
            Kind::Ours(configuration) => {
                let file = folder.join("sluicegate.toml");
                std::fs::write(&file, configuration.as_bytes())
                    .map_err(Error::io(format!("cannot write {}", file.display())))?;
                let router = text(&workspace.release("sluicegate"));
                let mut command = vec![router, "serve".into(), "--config".into(), text(&file)];
                command.extend(["--listen".into(), address(listen), "--admin".into(), address(admin)]);
                command.extend(engines.into_iter().flat_map(|url| ["--backend".into(), url]));
                let server = start(&command, listen, folder)?;
                ask::until_it_says_yes(admin, "/readyz")?;
                Ok(Started { urls, _server: Some(server) })
            }
            Kind::Peer(program) => {
                let bin = peers.map(Path::to_path_buf).unwrap_or_default();
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
                let server = start(&command, listen, folder)?;
                ask::until_it_says_yes(listen, "/v1/models")?;
                Ok(Started { urls, _server: Some(server) })
            }
        }
    }
}

fn url(port: u16) -> String {
    format!("http://{}", address(port))
}

fn start(command: &[String], port: u16, folder: &Path) -> Result<Server, Error> {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    Server::anywhere(&command, port, &folder.join("router.log"))
}
