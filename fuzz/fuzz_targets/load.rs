//! Bytes as a file of the watched directory: artifact, component, configuration, trial calls.
//!
//! Whatever the bytes are, loading ends, within its limits, in a plugin or in an error. libFuzzer holds the
//! rest: no panic or abort, `-timeout` for what hangs, `-rss_limit_mb` for what leaks or allocates without
//! bound. Core modules are left out: making components of them is a matter of a process of its own, because
//! the libraries that do recurse without end over packages that need each other in a circle.
#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::{fuzz_target, Corpus};
use sluicegate::config::PluginConfig;
use sluicegate::plugin::loader::Loader;

/// What begins a core module and no component.
const MODULE: &[u8] = b"\0asm\x01\0\0\0";

thread_local! {
    static LOADER: LazyCell<(Loader, PluginConfig)> = LazyCell::new(|| {
        let mut config = PluginConfig::named("fuzzed");
        config.memory_bytes = 16 * 1024 * 1024;
        (Loader::start().expect("no engine"), config)
    });
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    if bytes.starts_with(MODULE) {
        return Corpus::Reject;
    }
    LOADER.with(|loader| {
        let (loader, config) = &**loader;
        if let Err(error) = loader.load(bytes, config) {
            // What is said of it is part of what must not fail, nor grow with the file.
            assert!(error.to_string().len() < 16 * 1024, "an endless error");
        }
    });
    Corpus::Keep
});
