//! A store that both engines share: LMCache, Mooncake store, shared files.
//!
//! Prefill writes its blocks there under their hashes and decode finds them by itself: neither is told anything.

use super::{Ask, DialectError, Leg, one_token};

pub(super) fn prefill(ask: Ask<'_>) -> Result<Leg, DialectError> {
    one_token::body(ask, &[]).map(Leg::of)
}

pub(super) fn decode(ask: Ask<'_>) -> Result<Leg, DialectError> {
    one_token::with(ask, &[]).map(Leg::of)
}

#[cfg(test)]
mod tests {
    use crate::api::splice;
    use crate::disagg::{decode, fixtures, prefill};
    use crate::types::{Api, Dialect};

    #[test]
    fn nothing_is_added() {
        let body = fixtures::body(r#"{"model":"m", "prompt":"x","stream":true,"max_tokens":9}"#);
        let pair = fixtures::pair();
        let ask = fixtures::ask(Api::Completions, &body, &pair);
        assert_eq!(decode(Dialect::Storage, ask, b"").unwrap().body, body);
        let leg = prefill(Dialect::Storage, ask).unwrap().body;
        assert_eq!(&leg[..], br#"{"model":"m", "prompt":"x","stream":false,"max_tokens":1}"#);
        assert_eq!(splice::get(&leg, "kv_transfer_params"), Ok(None));
    }
}
