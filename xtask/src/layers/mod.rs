//! Who may import whom in the host, and how long a file may be.
//!
//! The host's modules form layers. An import goes to a lower layer, never up and never sideways, and the
//! layers of pure logic name no runtime. The check reads the text of the sources, which is enough: a path
//! to another module of the crate begins with `crate::`, or with as many `super::` as lead to its root.

mod breach;
mod paths;
mod rules;
mod source;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use breach::Breach;

use crate::error::Error;
use crate::run::say;
use crate::workspace::Workspace;
use source::Source;

/// Where the project's own Rust sources are.
const SOURCES: &[&str] = &["host/src", "sdk/src", "sim/src", "xtask/src", "plugins", "tests/src"];

/// Checks the whole workspace.
///
/// # Errors
/// [`Error::Layers`] with every breach.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Error> {
    let mut breaches = Vec::new();
    let mut files = 0;
    for folder in SOURCES {
        let folder = workspace.root().join(folder);
        for path in rust_files(&folder)? {
            let text =
                fs::read_to_string(&path).map_err(Error::io(format!("cannot read {}", path.display())))?;
            let shown = path.strip_prefix(workspace.root()).unwrap_or(&path);
            let source = Source::new(shown, &text);
            files += 1;
            rules::length(&source, &mut breaches);
            if let Ok(inside) = path.strip_prefix(workspace.root().join("host/src")) {
                rules::layers(&source, inside, &mut breaches);
            }
        }
    }
    if breaches.is_empty() {
        say(format!("{files} files keep to the layers and the length"));
        Ok(())
    } else {
        Err(Error::Layers(breaches))
    }
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let problem = || format!("cannot read {}", folder.display());
        for entry in fs::read_dir(&folder).map_err(Error::io(problem()))? {
            let path = entry.map_err(Error::io(problem()))?.path();
            if path.file_stem().is_some_and(is_tests) {
                // No code of the product.
            } else if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// `tests.rs`, `parse_tests.rs` or a folder `tests`: unit tests in files of their own.
fn is_tests(stem: &std::ffi::OsStr) -> bool {
    stem.to_str().is_some_and(|stem| stem == "tests" || stem.ends_with("_tests"))
}
