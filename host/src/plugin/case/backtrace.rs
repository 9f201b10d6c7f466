//! Where in the guest a call failed.

use wasmtime::WasmBacktrace;

/// Frames that are kept; a deep recursion has thousands.
const MAX_FRAMES: usize = 32;
/// Bytes of a name that are kept; generic code has long ones.
const MAX_NAME: usize = 256;

/// The guest's functions under way, the innermost first. A file without a name section has numbers alone.
pub(in crate::plugin) fn frames(error: &wasmtime::Error) -> Vec<Box<str>> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let frames = backtrace.frames().iter().take(MAX_FRAMES).map(|frame| match frame.func_name() {
        Some(name) => named(name),
        None => {
            let offset = frame.module_offset().unwrap_or_default();
            format!("function {} at 0x{offset:x}", frame.func_index()).into()
        }
    });
    frames.collect()
}

/// A name as its author knows it: Rust's without the hash that makes it unique, other languages' as they are.
fn named(name: &str) -> Box<str> {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    let end = name.floor_char_boundary(MAX_NAME);
    name.get(..end).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(&*named("_ZN4core9panicking5panic17h0123456789abcdefE"), "core::panicking::panic");
        assert_eq!(&*named("main.score"), "main.score");
        assert_eq!(named(&"x".repeat(1_000)).len(), MAX_NAME);
    }
}
