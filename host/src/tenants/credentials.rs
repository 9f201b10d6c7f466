//! What callers show of who they are.

use http::HeaderMap;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};

use crate::config::KeyHash;
use crate::types::CREDENTIALS;

/// The hashes of the keys that a request shows, each once. The headers go: nothing after this can pass them on.
pub(super) fn take(headers: &mut HeaderMap) -> Vec<KeyHash> {
    let mut shown = Vec::new();
    for name in &CREDENTIALS {
        // What is meant for a proxy on the way is no key of a tenant.
        let values = headers.get_all(name).iter().filter(|_| *name != PROXY_AUTHORIZATION);
        let texts = values.filter_map(|value| value.to_str().ok()).map(str::trim);
        let keys = texts.filter_map(|text| if *name == AUTHORIZATION { bearer(text) } else { Some(text) });
        for hash in keys.filter(|key| !key.is_empty()).map(KeyHash::of) {
            if !shown.contains(&hash) {
                shown.push(hash);
            }
        }
        headers.remove(name);
    }
    shown
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, key) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}
