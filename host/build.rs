//! Embeds the default plugins that `cargo xtask plugins` built.
//!
//! They are built for another target, so the host's own build cannot make them; without them the
//! binary works all the same and says which command makes them.

use std::path::PathBuf;
use std::{env, fs};

const NAMES: [&str; 3] = ["fairness", "prefix-affinity", "pd-split"];

fn main() {
    println!("cargo:rerun-if-env-changed=SLUICEGATE_PLUGINS");
    let directory = directory();
    // A watched path must exist, or every build would run this again.
    let _ = fs::create_dir_all(&directory);
    println!("cargo:rerun-if-changed={}", directory.display());
    let mut source = String::from("static EMBEDDED: &[(&str, &[u8])] = &[\n");
    for name in NAMES {
        let path = directory.join(format!("{name}.wasm"));
        if path.is_file() {
            println!("cargo:rerun-if-changed={}", path.display());
            source.push_str(&format!("    ({name:?}, include_bytes!({path:?})),\n"));
        }
    }
    source.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("builtin.rs");
    if fs::read_to_string(&out).ok().as_deref() != Some(&source)
        && let Err(error) = fs::write(&out, source)
    {
        println!("cargo:error=cannot write {}: {error}", out.display());
    }
}

/// `$SLUICEGATE_PLUGINS`, or `target/plugins` of the workspace.
fn directory() -> PathBuf {
    match env::var_os("SLUICEGATE_PLUGINS") {
        Some(directory) => directory.into(),
        // Asked for when it runs: builds of several checkouts may share this program.
        None => {
            PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../target/plugins")
        }
    }
}
