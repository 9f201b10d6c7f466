//! Where things are.

use std::env;
use std::path::{Path, PathBuf};

/// The project's folder and what is made in it.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    build: PathBuf,
}

impl Workspace {
    /// The workspace that this program was built in.
    pub(crate) fn find() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_path_buf();
        let build = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir));
        Self { root, build }
    }

    /// The project's folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// What is made here and is no output of cargo for this machine.
    pub(crate) fn made(&self, name: &str) -> PathBuf {
        self.root.join("target").join(name)
    }

    /// A binary of the profile that is given to others.
    pub(crate) fn dist(&self, name: &str) -> PathBuf {
        self.build.join("dist").join(name)
    }

    /// A binary of the release profile.
    pub(crate) fn release(&self, name: &str) -> PathBuf {
        self.build.join("release").join(name)
    }

    /// A binary of the development profile.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.build.join("debug").join(name)
    }
}
