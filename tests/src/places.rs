//! Where the programs under test are: environment variables that `cargo xtask test` sets.

use std::path::PathBuf;

/// The router's binary.
#[must_use]
pub fn router() -> PathBuf {
    place("SLUICEGATE_TEST_ROUTER")
}

/// The simulator's binary.
#[must_use]
pub fn sim() -> PathBuf {
    place("SLUICEGATE_TEST_SIM")
}

/// The folder of the default plugins' components.
#[must_use]
pub fn plugins() -> PathBuf {
    place("SLUICEGATE_TEST_PLUGINS")
}

/// The folder of the test guests' components.
#[must_use]
pub fn guests() -> PathBuf {
    place("SLUICEGATE_TEST_GUESTS")
}

/// The folder of the components of `tests/languages`.
#[must_use]
pub fn languages() -> PathBuf {
    place("SLUICEGATE_TEST_LANGUAGES")
}

/// A Python with the packages of `tests/real/requirements.txt`.
#[must_use]
pub fn python() -> PathBuf {
    place("SLUICEGATE_TEST_PYTHON")
}

/// A folder with the packages of `tests/real/package.json` in `node_modules`.
#[must_use]
pub fn node() -> PathBuf {
    place("SLUICEGATE_TEST_NODE")
}

/// The tiny model for llama.cpp.
#[must_use]
pub fn gguf() -> PathBuf {
    place("SLUICEGATE_TEST_GGUF")
}

/// The tiny model in the Hugging Face layout.
#[must_use]
pub fn model() -> PathBuf {
    place("SLUICEGATE_TEST_MODEL")
}

/// The virtual environment of a real vLLM; only `cargo xtask test --engines` has one.
#[must_use]
pub fn vllm() -> PathBuf {
    place("SLUICEGATE_TEST_VLLM")
}

/// The virtual environment of aiperf; only `cargo xtask test --engines` has one.
#[must_use]
pub fn aiperf() -> PathBuf {
    place("SLUICEGATE_TEST_AIPERF")
}

/// A script of `tests/real`.
#[must_use]
pub fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("real").join(name)
}

fn place(variable: &str) -> PathBuf {
    match std::env::var_os(variable) {
        Some(path) => path.into(),
        None => {
            panic!("{variable} is not set: this test needs programs that `cargo xtask test` builds; run that")
        }
    }
}
