//! Bytes as what a process before wrote down, digest included: what is read of them is written as what reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluicegate::snapshot::{body, read, write};

fuzz_target!(|bytes: &[u8]| {
    let _ = read(bytes);
    let Ok(snapshot) = body(bytes) else { return };
    let written = write(&snapshot);
    let again = read(&written).expect("what was written is not read");
    // Numbers that are none do not equal themselves.
    assert_eq!(write(&again), written);
});
