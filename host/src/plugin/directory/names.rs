//! What the name of a file in the plugin directory says.
//!
//! Files of one *version* belong together: `NAME.wasm`, its settings `NAME.toml` and its signature
//! `NAME.wasm.sig`; and for a candidate the same with `NAME.next` in the place of `NAME`. A name that looks
//! as if a plugin was meant, and is none, is told from one that is nobody's business: the first is worth a
//! line in the log.

use std::ffi::OsStr;
use std::path::Path;

use crate::config::NAME_LENGTH;

/// What the candidate of a plugin is called: the plugin's name and this.
const NEXT: &str = ".next";
/// Endings of the files of a version. The longest first: one is the beginning of another.
const ENDINGS: [&str; 3] = [".wasm.sig", ".wasm", ".toml"];

/// What a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named<'a> {
    /// A file of this version: `NAME`, or `NAME.next`.
    Version(&'a str),
    /// A plugin was meant, but this is why it is none.
    Mistake(&'static str),
    /// Anything else.
    Other,
}

/// The version that a path of the directory belongs to.
#[must_use]
pub fn version(path: &Path) -> Option<&str> {
    match named(path.file_name()?) {
        Named::Version(version) => Some(version),
        Named::Mistake(_) | Named::Other => None,
    }
}

/// Reads a name. Names that begin with a dot are nobody's business: mounted configuration and editors keep
/// their working copies there.
pub(super) fn named(name: &OsStr) -> Named<'_> {
    if name.as_encoded_bytes().starts_with(b".") {
        return Named::Other;
    }
    let Some(text) = name.to_str() else {
        let wasm = name.as_encoded_bytes().ends_with(b".wasm");
        return if wasm { Named::Mistake("its name is not UTF-8") } else { Named::Other };
    };
    let ending = ENDINGS.iter().find_map(|ending| Some((text.strip_suffix(ending)?, *ending)));
    match ending {
        None => without_ending(text),
        Some((stem, ending)) => match mistake(stem) {
            None => Named::Version(stem),
            // Other programs keep such files too.
            Some(_) if ending == ".toml" => Named::Other,
            Some(why) => Named::Mistake(why),
        },
    }
}

fn without_ending(text: &str) -> Named<'_> {
    let lower = text.to_ascii_lowercase();
    if lower.ends_with(".wasm") || lower.ends_with(".wasm.sig") {
        Named::Mistake("the ending must be written in lower case: .wasm, .wasm.sig")
    } else if lower.ends_with(".cwasm") {
        Named::Mistake("a component that was compiled elsewhere is not taken; put NAME.wasm there")
    } else if lower.ends_with(".wat") {
        Named::Mistake("the text form is not taken; put the binary there as NAME.wasm")
    } else {
        Named::Other
    }
}

/// Whether a text may be a plugin's name: it appears in metrics, paths and configuration.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.ends_with(NEXT) && mistake(text).is_none()
}

/// Why a version cannot be called this.
fn mistake(stem: &str) -> Option<&'static str> {
    let name = stem.strip_suffix(NEXT).unwrap_or(stem);
    if name.contains(NEXT) {
        Some("a plugin has one candidate: NAME.next.wasm")
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
        Some("a plugin's name holds letters of ASCII, digits, `-` and `_` only")
    } else if name.is_empty() || name.len() > NAME_LENGTH {
        Some("a plugin's name has 1 to 64 characters")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_version_belong_together() {
        for (name, version) in [
            ("a.wasm", "a"),
            ("a.toml", "a"),
            ("a.wasm.sig", "a"),
            ("A_1-b.wasm", "A_1-b"),
            ("a.next.wasm", "a.next"),
            ("a.next.toml", "a.next"),
            ("a.next.wasm.sig", "a.next"),
            ("next.wasm", "next"),
        ] {
            assert_eq!(named(OsStr::new(name)), Named::Version(version), "{name}");
        }
    }

    #[test]
    fn mistakes_are_told_from_what_is_nobodys_business() {
        let long = format!("{}.wasm", "x".repeat(65));
        for name in [
            "a.next.next.wasm",
            "a.next.next.wasm.sig",
            "a b.wasm",
            "UPPER.WASM",
            "a.Wasm.sig",
            "a.v2.wasm",
            "é.wasm",
            "a.cwasm",
            "a.wat",
            &long,
        ] {
            assert!(matches!(named(OsStr::new(name)), Named::Mistake(_)), "{name}");
        }
        for name in [".a.wasm", "..data", ".wasm", "README.md", "a.wasm~", "a.wasm.part", "a b.toml", "a", ""]
        {
            assert_eq!(named(OsStr::new(name)), Named::Other, "{name}");
        }
    }
}
