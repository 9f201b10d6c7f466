//! The same scorer in several languages, each made a component by the tools that its authors use.
//!
//! `tests/languages` holds the sources and the pinned versions; components go to `target/languages-wasm`, and are
//! made anew only when what they are made of changed. A toolchain that cannot be had here leaves `NAME.skipped`
//! in place of `NAME.wasm`, with the reason, and says so: a test must not take a missing component for success.

mod bindings;
mod c;
mod go;
mod javascript;
mod python;
mod rust;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::run::say;
use crate::stamp::Stamp;
use crate::workspace::Workspace;

/// The world that all of them are built for.
const WORLD: &str = "scorer";

/// Where the parts of a build are.
struct Places {
    /// The folder of `tests/languages` with the source.
    source: PathBuf,
    /// The contract with the world to build for.
    wit: PathBuf,
    /// A folder to work in.
    work: PathBuf,
    /// The component to make.
    component: PathBuf,
}

/// A language with its toolchain.
struct Language {
    name: &'static str,
    /// The folder of `tests/languages`.
    folder: &'static str,
    /// What the component is made of, in that folder.
    sources: &'static [&'static str],
    /// How a person gets the toolchain.
    install: &'static str,
    /// Gets the toolchain.
    prepare: fn(&Workspace, &Places) -> Result<(), Error>,
    /// Makes the component.
    build: fn(&Workspace, &Places) -> Result<(), Error>,
}

const ALL: [Language; 6] = [rust::BARE, rust::WASIP2, c::C, go::GO, javascript::JAVASCRIPT, python::PYTHON];

/// Builds all that can be built; says where the components are.
///
/// # Errors
/// When a toolchain that is there does not build its source.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf, Error> {
    let output = workspace.made("languages-wasm");
    fs::create_dir_all(&output).map_err(Error::io(format!("cannot create {}", output.display())))?;
    let contract = contract(workspace)?;
    for language in &ALL {
        language.ensure(workspace, &contract, &output)?;
    }
    Ok(output)
}

impl Language {
    fn ensure(&self, workspace: &Workspace, wit: &Path, output: &Path) -> Result<(), Error> {
        let places = Places {
            source: workspace.root().join("tests/languages").join(self.folder),
            wit: wit.into(),
            work: workspace.made("languages").join(self.name),
            component: output.join(format!("{}.wasm", self.name)),
        };
        let sources = self.sources.iter().map(|name| places.source.join(name));
        let contract = [wit.join("world.wit"), wit.join("deps/policy/policy.wit")];
        let stamp =
            Stamp::new(&places.component, &sources.chain(contract).collect::<Vec<_>>(), self.install)?;
        if stamp.fresh() && places.component.exists() {
            return Ok(());
        }
        stamp.begin()?;
        fs::create_dir_all(&places.work)
            .map_err(Error::io(format!("cannot create {}", places.work.display())))?;
        let skipped = output.join(format!("{}.skipped", self.name));
        let _ = fs::remove_file(&skipped);
        if let Err(problem) = (self.prepare)(workspace, &places) {
            let why = format!("{problem}; get it by: {}", self.install);
            say(format!("SKIPPED: no plugin in {}: {why}", self.name));
            let _ = fs::remove_file(&places.component);
            return fs::write(&skipped, why)
                .map_err(Error::io(format!("cannot write {}", skipped.display())));
        }
        say(format!("building the plugin in {}", self.name));
        (self.build)(workspace, &places)?;
        stamp.done()
    }
}

/// The contract and the world in the layout that generators of bindings read.
fn contract(workspace: &Workspace) -> Result<PathBuf, Error> {
    let wit = workspace.made("languages").join("wit");
    let policy = wit.join("deps/policy");
    fs::create_dir_all(&policy).map_err(Error::io(format!("cannot create {}", policy.display())))?;
    let files =
        [("tests/languages/world.wit", wit.join("world.wit")), ("wit/policy.wit", policy.join("policy.wit"))];
    for (from, to) in files {
        fs::copy(workspace.root().join(from), &to)
            .map_err(Error::io(format!("cannot write {}", to.display())))?;
    }
    Ok(wit)
}

/// Copies files of the source folder to the working folder.
fn copy(places: &Places, names: &[&str]) -> Result<(), Error> {
    for name in names {
        let to = places.work.join(name);
        fs::create_dir_all(to.parent().unwrap_or(&places.work))
            .and_then(|()| fs::copy(places.source.join(name), &to))
            .map_err(Error::io(format!("cannot write {}", to.display())))?;
    }
    Ok(())
}
