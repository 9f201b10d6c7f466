//! Compiled code as bytes that know whether they are whole and whose they are.
//!
//! Loading compiled code is as good as running it: wasmtime checks its version and settings, not what the
//! instructions do. So this module is the only one that loads any, from two sources: the pipe of a process
//! that this program started from itself, and a file that nobody but this user can have written. What it
//! checks besides is chance, not malice: that no bytes are missing or changed, and that they were made by an
//! engine like this one.

use std::hash::{Hash as _, Hasher as _};

use wasmtime::Engine;
use wasmtime::component::Component;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

const MAGIC: &[u8; 8] = b"sluice1\n";
/// Magic, stamp, checksum.
const HEADER: usize = 8 + 8 + 16;

/// Which engines' code is alike: wasmtime's version and all settings that matter to code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64);

impl Stamp {
    pub(super) fn of(engine: &Engine) -> Self {
        let mut hasher = Xxh3::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Self(hasher.finish())
    }

    /// The name of a component's code for such engines.
    pub(super) fn key(self, digest: &str) -> String {
        format!("{digest}-{:016x}", self.0)
    }
}

/// Compiled code under its seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sealed(Vec<u8>);

impl Sealed {
    /// Bytes as they came. Only for what the child wrote or the cache holds.
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Compiles, and seals what comes out.
    pub(super) fn compile(engine: &Engine, component: &[u8]) -> wasmtime::Result<Self> {
        let code = engine.precompile_component(component)?;
        let mut bytes = Vec::with_capacity(HEADER + code.len());
        bytes.extend(MAGIC);
        bytes.extend(Stamp::of(engine).0.to_le_bytes());
        bytes.extend(xxh3_128(&code).to_le_bytes());
        bytes.extend(code);
        Ok(Self(bytes))
    }

    /// The code, if it is whole and made for engines like this.
    pub(super) fn load(&self, engine: &Engine, stamp: Stamp) -> Result<Component, String> {
        let code = self.open(stamp)?;
        #[expect(
            unsafe_code,
            reason = "wasmtime runs what it loads; these bytes were made by its own `precompile_component` in a process of this program, and their checksum says that they are still those"
        )]
        // SAFETY: see above, and the module's documentation for where a `Sealed` can come from.
        let component = unsafe { Component::deserialize(engine, code) };
        component.map_err(|error| format!("{error:#}"))
    }

    fn open(&self, stamp: Stamp) -> Result<&[u8], String> {
        let mut rest = self.0.as_slice();
        let mut take = |length: usize| {
            let (taken, left) = rest.split_at_checked(length)?;
            rest = left;
            Some(taken)
        };
        if take(MAGIC.len()) != Some(MAGIC) {
            return Err("it does not begin as compiled code does".into());
        }
        if take(8) != Some(&stamp.0.to_le_bytes()) {
            return Err("it was made by another version or for another machine".into());
        }
        let sum = take(16).map(<[u8]>::to_vec);
        if sum.as_deref() != Some(&xxh3_128(rest).to_le_bytes()) {
            return Err("it is cut off or changed".into());
        }
        Ok(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::engine::engine;

    #[test]
    fn it_opens_whole_and_for_its_own_engine_only() {
        let engine = engine().unwrap();
        let stamp = Stamp::of(&engine);
        let sealed = Sealed::compile(&engine, b"\0asm\x0d\0\x01\0").unwrap();
        sealed.load(&engine, stamp).unwrap();
        assert!(sealed.open(Stamp(stamp.0 ^ 1)).unwrap_err().contains("another version"));
        for at in [0, 10, 20, HEADER, sealed.0.len() - 1] {
            let mut changed = sealed.clone();
            changed.0[at] ^= 1;
            assert!(changed.load(&engine, stamp).is_err(), "byte {at}");
        }
        for length in [0, 7, 15, 31, sealed.0.len() - 1] {
            let cut = Sealed(sealed.0[..length].to_vec());
            assert!(cut.load(&engine, stamp).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn equal_engines_have_equal_stamps() {
        assert_eq!(Stamp::of(&engine().unwrap()), Stamp::of(&engine().unwrap()));
        assert_ne!(Stamp::of(&engine().unwrap()), Stamp::of(&Engine::default()));
    }
}
