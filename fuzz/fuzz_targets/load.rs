//! Bytes as a file of the watched directory: artifact, component, configuration, trial calls.
//!
//! Whatever the bytes are, loading ends, within its limits, in a plugin or in an error. libFuzzer holds the
//! rest: no panic or abort, `-timeout` for what hangs, `-rss_limit_mb` for what leaks or allocates without
//! bound.
#![no_main]

use std::cell::LazyCell;
use std::panic;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use sluicegate::config::PluginConfig;
use sluicegate::plugin::loader::Loader;
use wasm_mutate::WasmMutate;

thread_local! {
    static LOADER: LazyCell<(Loader, PluginConfig)> = LazyCell::new(|| {
        let mut config = PluginConfig::named("fuzzed");
        config.memory_bytes = 16 * 1024 * 1024;
        (Loader::start().expect("no engine"), config)
    });
}

fuzz_target!(|bytes: &[u8]| {
    LOADER.with(|loader| {
        let (loader, config) = &**loader;
        if let Err(error) = loader.load(bytes, config) {
            // What is said of it is part of what must not fail, nor grow with the file.
            assert!(error.to_string().len() < 16 * 1024, "an endless error");
        }
    });
});

// Mutations that leave a module valid reach what lies behind the parser: half of them for those inputs that are
// core modules, which the host wraps by itself. Components, and the other half, take libFuzzer's own.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 2 == 0
        && let Some(mutated) = mutated(&data[..size], seed)
        && mutated.len() <= max_size
    {
        data[..mutated.len()].copy_from_slice(&mutated);
        return mutated.len();
    }
    fuzzer_mutate(data, size, max_size)
});

fn mutated(module: &[u8], seed: u32) -> Option<Vec<u8>> {
    // The mutator panics at some modules that are not valid, and its panics are no finding: what hears of panics ends
    // the process, and hears nothing meanwhile.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mutated = panic::catch_unwind(|| {
        let mut mutate = WasmMutate::default();
        mutate.seed(seed.into()).fuel(1_000).preserve_semantics(false);
        let mutants = mutate.run(module).ok()?;
        mutants.take(1).next()?.ok()
    });
    panic::set_hook(hook);
    mutated.ok().flatten()
}
