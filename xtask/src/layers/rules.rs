//! The rules.

use std::path::Path;

use super::breach::Breach;
use super::paths::named;
use super::source::Source;
use super::table::{RUNTIMES, layer, pure};

/// Lines of a file, its unit tests not counted.
const LONGEST: usize = 600;

/// No file grows past what a person reads at once.
pub(super) fn length(source: &Source, breaches: &mut Vec<Breach>) {
    if source.lines > LONGEST {
        let problem = format!("{} lines without its tests; {LONGEST} at most", source.lines);
        breaches.push(Breach { file: source.file.clone(), line: 1, problem });
    }
}

/// Imports go down; pure logic names no runtime. `inside` is the path from the folder of sources.
pub(super) fn layers(source: &Source, inside: &Path, breaches: &mut Vec<Breach>) {
    let breach =
        |at: usize, problem: String| Breach { file: source.file.clone(), line: source.line(at), problem };
    let own = module(inside);
    let Some(own_layer) = layer(&own) else {
        breaches.push(breach(
            0,
            format!("module `{own}` has no layer; give it one in xtask/src/layers/table.rs"),
        ));
        return;
    };
    for (at, other) in named(&source.code, inside) {
        // What is no module of the table is a name at the root, such as a macro.
        let Some(other_layer) = layer(&other).filter(|_| other != own) else { continue };
        if other_layer >= own_layer {
            let problem = format!("`{own}` (layer {own_layer}) may not use `{other}` (layer {other_layer})");
            breaches.push(breach(at, problem));
        }
    }
    if pure(own_layer) {
        for (at, runtime) in runtimes(&source.code) {
            breaches.push(breach(
                at,
                format!("`{own}` (layer {own_layer}) is pure logic and may not name `{runtime}`"),
            ));
        }
    }
}

/// The module at the root of the crate that a file belongs to.
fn module(inside: &Path) -> String {
    let first = inside.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    first.unwrap_or_default().trim_end_matches(".rs").to_owned()
}

fn runtimes(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for name in RUNTIMES {
        for (at, _) in code.match_indices(name) {
            let inside_word = code
                .get(..at)
                .is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
            if !inside_word {
                found.push((at, *name));
            }
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(inside: &str, text: &str) -> Vec<String> {
        let mut breaches = Vec::new();
        layers(&Source::new(&Path::new("host/src").join(inside), text), Path::new(inside), &mut breaches);
        breaches.into_iter().map(|breach| breach.to_string()).collect()
    }

    #[test]
    fn imports_that_go_down_are_fine() {
        let text =
            "use crate::{policy::Call, pool::Pool, types::Api};\nuse super::score;\nuse crate::route::pick;";
        assert_eq!(problems("route/join.rs", text), [""; 0]);
    }

    #[test]
    fn an_import_that_goes_up_is_a_breach() {
        assert_eq!(
            problems("pool/endpoint.rs", "//! Doc.\nuse crate::route::Decision;"),
            ["host/src/pool/endpoint.rs:2: `pool` (layer 1) may not use `route` (layer 3)"]
        );
    }

    #[test]
    fn an_import_that_goes_sideways_is_a_breach() {
        assert_eq!(problems("flow/mod.rs", "use crate::route::Decision;").len(), 1);
        assert_eq!(problems("flow/mod.rs", "use super::{disagg, policy};").len(), 1);
    }

    #[test]
    fn a_runtime_in_pure_logic_is_a_breach() {
        for text in
            ["use tokio::time;", "fn f(_: hyper_util::rt::TokioIo<u8>) {}", "type E = wasmtime::Error;"]
        {
            assert_eq!(problems("policy/ports.rs", text).len(), 1, "{text}");
        }
        assert_eq!(problems("plugin/host.rs", "use wasmtime::Engine;"), [""; 0]);
        assert_eq!(problems("policy/ports.rs", "// wasmtime\nlet not_tokio = 1;"), [""; 0]);
    }

    #[test]
    fn a_module_without_a_layer_is_a_breach() {
        assert_eq!(problems("misc/mod.rs", "").len(), 1);
    }

    #[test]
    fn a_long_file_is_a_breach_and_its_tests_do_not_count() {
        let code = "fn f() {}\n".repeat(LONGEST);
        let long_tests = format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n");
        for (text, expected) in [(code.clone(), 0), (long_tests, 0), (code + "fn g() {}\n", 1)] {
            let mut breaches = Vec::new();
            length(&Source::new(Path::new("x.rs"), &text), &mut breaches);
            assert_eq!(breaches.len(), expected);
        }
    }
}
