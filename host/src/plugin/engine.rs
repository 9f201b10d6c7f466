//! The one wasmtime engine of the process and its clock tick.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Config, Engine};

use super::bindings::sluicegate::policy as contract;
use super::compile::{Compiler, Compiling};
use super::host::Guest;

/// How often guests are interrupted to look at their deadline. Deadlines are a few milliseconds, so a
/// tick of one keeps the overshoot below a fifth of the default.
pub const TICK: Duration = Duration::from_millis(1);

/// Stack of a guest. Policies are shallow; deep recursion is a fault that should trap early.
const WASM_STACK: usize = 512 * 1024;

/// The runtime could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly runtime cannot start: {0:#}")]
pub struct RuntimeError(wasmtime::Error);

/// Engine and linker, shared by all plugins. Dropping it stops the tick.
pub struct Runtime {
    engine: Engine,
    linker: Linker<Guest>,
    compiler: Compiler,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").finish_non_exhaustive()
    }
}

impl Runtime {
    /// Makes the engine and starts its tick. Everything is compiled in this process; `cache` is looked into
    /// for what a router has left there.
    ///
    /// # Errors
    /// When the platform cannot run it, or the thread cannot be started.
    pub fn start(cache: Option<&Path>) -> Result<Self, RuntimeError> {
        Self::compiling(Compiling { cache: cache.map(Into::into), ..Compiling::default() })
    }

    /// The same, and says how plugins are compiled.
    ///
    /// # Errors
    /// When the platform cannot run it, or the thread cannot be started.
    pub fn compiling(compiling: Compiling) -> Result<Self, RuntimeError> {
        let engine = engine().map_err(RuntimeError)?;
        let linker = linker(&engine).map_err(RuntimeError)?;
        let stop = Arc::new(AtomicBool::new(false));
        tick(&engine, Arc::clone(&stop)).map_err(|error| RuntimeError(error.into()))?;
        let compiler = Compiler::new(engine.clone(), compiling);
        Ok(Self { engine, linker, compiler, stop })
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn linker(&self) -> &Linker<Guest> {
        &self.linker
    }

    pub(super) fn compiler(&self) -> &Compiler {
        &self.compiler
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The one configuration: a process that compiles for this one makes the same engine.
pub(super) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.epoch_interruption(true);
    // Calls are plain and synchronous; the machinery for concurrent ones would triple their cost.
    config.concurrency_support(false);
    config.max_wasm_stack(WASM_STACK);
    // No policy needs them; each is code that hostile bytes could reach.
    config.wasm_multi_memory(false);
    config.wasm_memory64(false);
    config.wasm_relaxed_simd(false);
    Engine::new(&config)
}

fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    contract::view::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::columns::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::log::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::clock::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::random::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::store::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    contract::metrics::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    Ok(linker)
}

fn tick(engine: &Engine, stop: Arc<AtomicBool>) -> std::io::Result<()> {
    let engine = engine.weak();
    std::thread::Builder::new().name("wasm-tick".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            #[expect(clippy::disallowed_methods, reason = "this thread is the clock")]
            std::thread::sleep(TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => return,
            }
        }
    })?;
    Ok(())
}
