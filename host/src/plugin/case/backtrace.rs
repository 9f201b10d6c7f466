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
        Some(name) => {
            let end = name.floor_char_boundary(MAX_NAME);
            name.get(..end).unwrap_or_default().into()
        }
        None => {
            let offset = frame.module_offset().unwrap_or_default();
            format!("function {} at 0x{offset:x}", frame.func_index()).into()
        }
    });
    frames.collect()
}
