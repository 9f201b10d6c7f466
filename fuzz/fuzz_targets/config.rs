//! Bytes as a configuration: it is valid, and printed reads back as the same, or refused with all that is wrong.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use sluicegate::config::{from_text, print};

fuzz_target!(|text: &str| {
    match from_text("fuzzed", text, Path::new("/etc/s")) {
        Ok(config) => {
            let again = from_text("printed", &print(&config), Path::new("/etc/s"));
            assert_eq!(again.as_ref(), Ok(&config), "it does not read back");
        }
        Err(errors) => assert!(!errors.0.is_empty()),
    }
});
