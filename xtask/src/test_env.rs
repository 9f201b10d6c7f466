//! What the tests with real programs need: Python and JavaScript packages, and a tiny model.
//!
//! All of it lies in `target/test-env`, is pinned by files of `tests/real`, and is made once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::machine;
use crate::run::{run, say};
use crate::stamp::Stamp;
use crate::workspace::Workspace;

/// The installer of Python packages, itself a Python package; pip takes ten times as long.
const UV: &str = "uv==0.13.9";

/// What has been prepared.
#[derive(Debug)]
pub(crate) struct TestEnv {
    /// The Python with the packages.
    pub(crate) python: PathBuf,
    /// The folder that holds `node_modules`.
    pub(crate) node: PathBuf,
    /// The model for llama.cpp.
    pub(crate) gguf: PathBuf,
    /// The same model for vLLM.
    pub(crate) model: PathBuf,
}

/// Prepares all of it.
///
/// # Errors
/// When a step fails.
pub(crate) fn prepare(workspace: &Workspace) -> Result<TestEnv, Error> {
    machine::CURL.ensure()?;
    let env = workspace.made("test-env");
    let scripts = workspace.root().join("tests/real");
    fs::create_dir_all(&env).map_err(Error::io(format!("cannot create {}", env.display())))?;
    let venv = env.join("venv");
    let python = python_packages(&venv, &scripts.join("requirements.txt"), &[])?;
    let node = node_packages(&env.join("node"), &scripts)?;
    let (model, gguf) = model(&env, &scripts, &python)?;
    Ok(TestEnv { python, node, gguf, model })
}

/// A virtual environment with the packages of a requirements file; `more` are flags of uv.
///
/// # Errors
/// When Python or a package cannot be had.
pub(crate) fn python_packages(venv: &Path, requirements: &Path, more: &[&str]) -> Result<PathBuf, Error> {
    let python = venv.join("bin/python");
    // Its programs name their interpreter by its path: one that was moved is none.
    let what = format!("{UV} {}\n{}\n", more.join(" "), venv.display());
    let stamp = Stamp::new(venv, &[requirements.into()], &what)?;
    if stamp.fresh() && python.exists() {
        return Ok(python);
    }
    say(format!("installing the Python packages of {} into {}", requirements.display(), venv.display()));
    stamp.begin()?;
    run(Command::new(machine::PYTHON.ensure()?).args(["-m", "venv", "--clear"]).arg(venv))?;
    run(Command::new(&python).args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", UV]))?;
    run(Command::new(venv.join("bin/uv"))
        .args(["--quiet", "pip", "install", "--python"])
        .arg(&python)
        .arg("--requirements")
        .arg(requirements)
        .args(more))?;
    stamp.done()?;
    Ok(python)
}

/// The packages of `package.json` and its lock in `scripts`, as `node_modules` of `folder`.
///
/// # Errors
/// When Node or a package cannot be had.
pub(crate) fn node_packages(folder: &Path, scripts: &Path) -> Result<PathBuf, Error> {
    let [manifest, lock] = ["package.json", "package-lock.json"].map(|name| scripts.join(name));
    let stamp = Stamp::new(folder, &[manifest.clone(), lock.clone()], "npm ci\n")?;
    if stamp.fresh() && folder.join("node_modules").exists() {
        return Ok(folder.into());
    }
    say(format!("installing the JavaScript packages of {} into {}", manifest.display(), folder.display()));
    stamp.begin()?;
    machine::NODE.ensure()?;
    fs::create_dir_all(folder).map_err(Error::io(format!("cannot create {}", folder.display())))?;
    for file in [manifest, lock] {
        let to = folder.join(file.file_name().unwrap_or_default());
        fs::copy(&file, &to).map_err(Error::io(format!("cannot write {}", to.display())))?;
    }
    let npm = machine::NPM.ensure()?;
    run(Command::new(npm).args(["ci", "--silent", "--no-audit", "--no-fund"]).current_dir(folder))?;
    stamp.done()?;
    Ok(folder.into())
}

fn model(env: &Path, scripts: &Path, python: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let [tiny, gguf] = ["tiny", "tiny.gguf"].map(|name| env.join(name));
    let [make_tiny, make_gguf] = ["mk_tiny.py", "mk_gguf.py"].map(|name| scripts.join(name));
    let stamp = Stamp::new(&gguf, &[make_tiny.clone(), make_gguf.clone()], "")?;
    if stamp.fresh() && gguf.exists() {
        return Ok((tiny, gguf));
    }
    say(format!("making a tiny model in {}", tiny.display()));
    stamp.begin()?;
    run(Command::new(python).arg(make_tiny).arg(&tiny))?;
    run(Command::new(python).arg(make_gguf).arg(&tiny).arg(&gguf))?;
    stamp.done()?;
    Ok((tiny, gguf))
}
