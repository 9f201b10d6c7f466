//! From a component's bytes to compiled code, away from what serves requests.
//!
//! ```text
//! built-in ─────────────────────────────► compiled here
//! file ──► private cache ── hit ────────► loaded
//!              │ miss
//!              └──► a process of its own ──► loaded, and put into the cache
//! ```
//!
//! Cranelift cannot be stopped, and small bytes can cost it minutes and gigabytes. So what others wrote is
//! compiled in a child process with bounds on time and memory ([`child`]): whatever happens there is an
//! error in words here. Consequences:
//! - The program must be able to run itself. A program that embeds the host without the hidden command
//!   (a simulator, a benchmark, a test) compiles in process, without those bounds.
//! - Compiled code comes back as bytes, and loading such bytes is as good as running them. [`sealed`] is
//!   the only place that does; it takes them from the child and from the cache, never from anywhere else.
//! - A file is compiled once for each version of the host: a restart takes it from the [`cache`]. Only what
//!   a child made is kept there.

mod cache;
mod child;
mod limits;
mod sealed;
mod tally;

use std::path::PathBuf;
use std::time::Instant;

use wasmtime::Engine;
use wasmtime::component::Component;

use super::artifact::{Artifact, ArtifactError};
use crate::config::CompileConfig;
use crate::policy::Source;
use cache::Cache;
use child::Children;
pub use child::{Work, main, program};
pub use limits::Limits;
use sealed::Stamp;
use tally::Tally;
pub use tally::{Compiled, How};

/// Why there is no compiled code.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler refused it.
    #[error("the component does not compile: {0}")]
    Invalid(String),
    /// It took too long.
    #[error(
        "compiling it takes more than {0} s of CPU time, or ten times that by the clock; make the component smaller, or raise `plugins.compile_s`"
    )]
    Time(u64),
    /// It took too much memory.
    #[error(
        "compiling it takes more than {0} MiB of memory; make the component smaller, or raise `plugins.compile_mib`"
    )]
    Memory(usize),
    /// The process died.
    #[error(
        "the process that compiled it ended before it was done ({0}); it is tried again when the file is written again"
    )]
    Died(String),
    /// The process could not be run.
    #[error("no process to compile it can be started: {0}")]
    Start(std::io::Error),
    /// What came back is not this engine's.
    #[error("what was compiled does not fit this engine ({0}); start sluicegate again")]
    Foreign(String),
}

impl CompileError {
    /// The reason to count it under.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "does_not_compile",
            Self::Time(_) => "compile_time",
            Self::Memory(_) => "compile_memory",
            Self::Died(_) | Self::Start(_) | Self::Foreign(_) => "compile_process",
        }
    }
}

/// Tries in a process of its own whether a component can be made of a file that is a core module: for commands that then
/// do it in theirs. Whatever else is wrong with the file is for them to find.
///
/// # Errors
/// When that process came to an end over it.
pub fn try_apart(program: PathBuf, bytes: &[u8]) -> Result<(), ArtifactError> {
    let children = Children::new(program, Limits::from(CompileConfig::default()));
    match Artifact::read_with(bytes, |module| wrap_apart(&children, module)) {
        Err(lost @ ArtifactError::Lost(_)) => Err(lost),
        _ => Ok(()),
    }
}

fn wrap_apart(children: &Children, module: &[u8]) -> Result<Vec<u8>, ArtifactError> {
    children.wrap(module).map_err(|error| match error {
        CompileError::Invalid(why) => ArtifactError::Wrap(why),
        lost => ArtifactError::Lost(lost.to_string()),
    })
}

/// How components are compiled.
#[derive(Debug, Clone, Default)]
pub struct Compiling {
    /// The program whose hidden command compiles; none: compiled in process.
    pub program: Option<PathBuf>,
    /// Folder of the private cache; none: nothing is kept.
    pub cache: Option<PathBuf>,
    /// Bounds of one compilation in a process of its own.
    pub limits: CompileConfig,
}

/// Compiles for one engine.
#[derive(Debug)]
pub(super) struct Compiler {
    engine: Engine,
    stamp: Stamp,
    children: Option<Children>,
    cache: Option<Cache>,
    tally: Tally,
}

impl Compiler {
    pub(super) fn new(engine: Engine, compiling: Compiling) -> Self {
        let Compiling { program, cache, limits } = compiling;
        Self {
            stamp: Stamp::of(&engine),
            engine,
            children: program.map(|program| Children::new(program, Limits::from(limits))),
            cache: cache.map(Cache::new),
            tally: Tally::default(),
        }
    }

    /// Bounds what is compiled from now on.
    pub(super) fn set_limits(&self, limits: CompileConfig) {
        if let Some(children) = &self.children {
            children.set_limits(Limits::from(limits));
        }
    }

    /// Looks at a file's bytes, and makes a component of a core module: of one that others wrote in a process of its own.
    pub(super) fn artifact(&self, bytes: &[u8], source: Source) -> Result<Artifact, ArtifactError> {
        match &self.children {
            Some(children) if source == Source::File => {
                Artifact::read_with(bytes, |module| wrap_apart(children, module))
            }
            _ => Artifact::read(bytes),
        }
    }

    /// The code of a component. Blocks for as long as compiling takes.
    pub(super) fn component(&self, artifact: &Artifact, source: Source) -> Result<Component, CompileError> {
        let start = Instant::now();
        let (how, component) = match source {
            Source::File => self.file(artifact),
            _ => (How::Inline, self.inline(&artifact.component)),
        };
        let took = start.elapsed();
        self.tally.note(how, took);
        tracing::debug!(digest = &*artifact.digest, how = how.as_str(), ?took, "component compiled");
        component
    }

    /// What was compiled so far.
    pub(super) fn compiled(&self) -> Vec<Compiled> {
        self.tally.read()
    }

    fn file(&self, artifact: &Artifact) -> (How, Result<Component, CompileError>) {
        let key = self.stamp.key(&artifact.component_digest);
        if let Some(component) = self.cache.as_ref().and_then(|cache| self.cached(cache, &key)) {
            return (How::Cache, Ok(component));
        }
        let Some(children) = &self.children else {
            return (How::Inline, self.inline(&artifact.component));
        };
        let made = children.compile(&artifact.component).and_then(|sealed| {
            let component = sealed.load(&self.engine, self.stamp).map_err(CompileError::Foreign)?;
            if let Some(cache) = &self.cache {
                cache.put(&key, &sealed);
            }
            Ok(component)
        });
        (How::Child, made)
    }

    fn cached(&self, cache: &Cache, key: &str) -> Option<Component> {
        match cache.get(key)?.load(&self.engine, self.stamp) {
            Ok(component) => Some(component),
            Err(problem) => {
                tracing::warn!(key, "compiled code in the cache cannot be used, and is made anew: {problem}");
                None
            }
        }
    }

    fn inline(&self, component: &[u8]) -> Result<Component, CompileError> {
        Component::from_binary(&self.engine, component)
            .map_err(|error| CompileError::Invalid(format!("{error:#}")))
    }
}

#[cfg(test)]
mod tests;
