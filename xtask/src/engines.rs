//! A real vLLM on the CPU and a load generator, for the tests that `--engines` adds.
//!
//! They pull in other versions of the same packages, so each has an environment of its own. The package of vLLM is
//! a community build for CPUs. It needs three hands: torch without the CPU build's version suffix, no audio and
//! video packages, and metadata under the name by which vLLM looks itself up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::run::say;
use crate::test_env::python_packages;
use crate::workspace::Workspace;

const VERSION: &str = "0.32.0+cpu";

/// What has been installed, each into a folder of its own.
#[derive(Debug)]
pub(crate) struct Engines {
    /// vLLM.
    pub(crate) vllm: PathBuf,
    /// NVIDIA's aiperf.
    pub(crate) aiperf: PathBuf,
}

/// Installs them.
///
/// # Errors
/// When a step fails.
pub(crate) fn prepare(workspace: &Workspace) -> Result<Engines, Error> {
    Ok(Engines { vllm: vllm(workspace)?, aiperf: aiperf(workspace)? })
}

fn aiperf(workspace: &Workspace) -> Result<PathBuf, Error> {
    let venv = workspace.made("test-env").join("aiperf");
    say("preparing aiperf; the first time it takes 0.9 GB");
    python_packages(&venv, &workspace.root().join("tests/real/aiperf/requirements.txt"), &[])?;
    Ok(venv)
}

fn vllm(workspace: &Workspace) -> Result<PathBuf, Error> {
    let scripts = workspace.root().join("tests/real/vllm");
    let venv = workspace.made("test-env").join("vllm");
    say("preparing vLLM; the first time it takes 6 GB and some minutes");
    let overrides = scripts.join("overrides.txt");
    let python = python_packages(
        &venv,
        &scripts.join("requirements.txt"),
        &["--overrides", overrides.to_str().unwrap_or_default()],
    )?;
    name_it(&python)?;
    Ok(venv)
}

/// Metadata for the name `vllm`, by which the package finds out that it is the CPU build.
fn name_it(python: &Path) -> Result<(), Error> {
    let output = Command::new(python)
        .args(["-c", "import site; print(site.getsitepackages()[0], end='')"])
        .output()
        .map_err(Error::io(format!("cannot run {}", python.display())))?;
    let packages = PathBuf::from(String::from_utf8_lossy(&output.stdout).into_owned());
    let folder = packages.join(format!("vllm-{VERSION}.dist-info"));
    fs::create_dir_all(&folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    let metadata = folder.join("METADATA");
    fs::write(&metadata, format!("Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}\n"))
        .map_err(Error::io(format!("cannot write {}", metadata.display())))
}
