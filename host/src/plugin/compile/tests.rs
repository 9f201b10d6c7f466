//! Where code comes from, in process; what the child does is seen from outside, in the black-box tests.

use std::fs;
use std::path::Path;

use super::sealed::Sealed;
use super::*;
use crate::plugin::engine::engine;

/// The smallest component there is.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fn compiler(cache: Option<&Path>) -> Compiler {
    let compiling = Compiling { cache: cache.map(Into::into), ..Compiling::default() };
    Compiler::new(engine().unwrap(), compiling)
}

fn counts(compiler: &Compiler) -> [u64; 3] {
    let mut counts = compiler.compiled().into_iter().map(|compiled| compiled.count);
    std::array::from_fn(|_| counts.next().unwrap())
}

#[test]
fn what_the_cache_holds_is_not_compiled_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("cache");
    let artifact = Artifact::read(EMPTY).unwrap();
    let compiler = compiler(Some(&folder));
    compiler.component(&artifact, Source::File).unwrap();
    assert_eq!(counts(&compiler), [0, 0, 1]);

    let sealed = Sealed::compile(&compiler.engine, EMPTY).unwrap();
    let key = compiler.stamp.key(&artifact.component_digest);
    let cache = compiler.cache.as_ref().unwrap();
    cache.put(&key, &sealed);
    compiler.component(&artifact, Source::File).unwrap();
    assert_eq!(counts(&compiler), [1, 0, 1]);

    compiler.component(&artifact, Source::Builtin).unwrap();
    assert_eq!(counts(&compiler), [1, 0, 2], "what is built in is not looked for there");

    let mut bytes = sealed.as_bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    cache.put(&key, &Sealed::from_bytes(bytes));
    compiler.component(&artifact, Source::File).unwrap();
    assert_eq!(counts(&compiler), [1, 0, 3], "what is damaged is made anew");
    assert!(fs::read_dir(&folder).unwrap().count() == 1);
}

#[test]
fn a_program_that_cannot_be_run_is_an_error_in_words() {
    let compiling = Compiling { program: Some("/no/such/program".into()), ..Compiling::default() };
    let compiler = Compiler::new(engine().unwrap(), compiling);
    let error = compiler.component(&Artifact::read(EMPTY).unwrap(), Source::File).unwrap_err();
    assert_eq!(error.reason(), "compile_process");
}

#[test]
fn a_program_that_writes_something_else_is_not_believed() {
    for (program, reason) in [
        ("/bin/true", "compile_process"),
        ("/bin/echo", "compile_process"),
        ("/bin/false", "does_not_compile"),
    ] {
        let compiling = Compiling { program: Some(program.into()), ..Compiling::default() };
        let compiler = Compiler::new(engine().unwrap(), compiling);
        let error = compiler.component(&Artifact::read(EMPTY).unwrap(), Source::File).unwrap_err();
        assert_eq!(error.reason(), reason, "{program}: {error}");
    }
}
