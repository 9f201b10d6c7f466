//! Paths, in all the ways in which they can be written.

use http::Method;

use super::of;
use crate::types::Api;

/// The path of an inference API that this is another way to write: with percent escapes, doubled slashes or dots. Some
/// servers take it for the same and some do not, so what is done for that API would not be done for it.
#[must_use]
pub fn disguised(method: &Method, path: &str) -> Option<String> {
    if method != Method::POST || of(method, path) != Api::Other {
        return None;
    }
    let plain = plain(path);
    (of(method, &plain) != Api::Other).then_some(plain)
}

fn plain(path: &str) -> String {
    let decoded = decoded(path);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        if segment == ".." {
            segments.pop();
        } else {
            segments.push(segment);
        }
    }
    format!("/{}", segments.join("/"))
}

/// Takes `%XX` for the byte that it stands for.
#[must_use]
pub fn decoded(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend(before.bytes());
        let byte = after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(b'%'));
        rest = byte.and_then(|_| after.get(2..)).unwrap_or(after);
    }
    bytes.extend(rest.bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn another_way_to_write_an_api_is_found_out() {
        let paths = [
            "//v1/chat/completions",
            "/v1/./chat/completions",
            "/v1/chat/completion%73",
            "/v1%2Fchat/completions",
            "/x/../v1/chat//completions/",
        ];
        for path in paths {
            assert_eq!(disguised(&Method::POST, path).as_deref(), Some("/v1/chat/completions"), "{path}");
            assert_eq!(disguised(&Method::GET, path), None, "{path}");
        }
        for path in [
            "/v1/chat/completions",
            "/v1/models/a%2Fb",
            "/%",
            "/%2",
            "/%zz",
            "/v1/chat/completions%2573",
            "/",
        ] {
            assert_eq!(disguised(&Method::POST, path), None, "{path}");
        }
    }

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(decoded("%"), "%");
        assert_eq!(decoded("a%zz%4"), "a%zz%4");
        assert_eq!(decoded("%41%é"), "A%é");
        assert_eq!(decoded("%ff"), "\u{fffd}");
    }

    proptest! {
        #[test]
        fn no_escape_hides_an_api(escaped in prop::collection::vec(any::<bool>(), 20), slashes in 1_usize..4) {
            const PLAIN: &str = "/v1/chat/completions";
            let written: String = PLAIN
                .chars()
                .zip(escaped)
                .map(|(char, escaped)| match char {
                    '/' if !escaped => "/".repeat(slashes),
                    char if escaped => format!("%{:02x}", u32::from(char)),
                    char => char.to_string(),
                })
                .collect();
            let found = disguised(&Method::POST, &written);
            prop_assert_eq!(found.as_deref(), (written != PLAIN).then_some(PLAIN));
        }

        #[test]
        fn any_path_can_be_looked_at(path in any::<String>()) {
            let plain = plain(&path);
            prop_assert!(plain.starts_with('/') && !plain.contains("//"));
        }
    }
}
