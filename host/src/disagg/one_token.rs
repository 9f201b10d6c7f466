//! A body that yields one token, and not as a stream: what vLLM's connectors take for prefill.

use super::{Ask, DialectError};
use crate::api::splice;
use crate::types::Api;
use bytes::Bytes;

/// How SGLang calls the limit of an answer.
pub(super) const NEW_TOKENS: &str = "max_new_tokens";

/// The client's body, made to yield one token, with these members besides.
pub(super) fn body(ask: Ask<'_>, more: &[(&str, &str)]) -> Result<Bytes, DialectError> {
    let Ask { api, body, .. } = ask;
    let has = |key: &str| splice::get(body, key).map(|value| value.is_some()).map_err(DialectError::Body);
    let mut fields = more.to_vec();
    fields.push(("stream", "false"));
    // A least number of tokens above the limit of one would be refused.
    let mut gone = vec!["stream_options", "min_tokens"];
    let sampling;
    match api {
        Api::Chat | Api::Completions | Api::Messages => {
            fields.push(("max_tokens", "1"));
            if has("max_completion_tokens")? {
                fields.push(("max_completion_tokens", "1"));
            }
        }
        Api::Responses => {
            fields.push(("max_output_tokens", "1"));
            // The answer of this leg is nobody's: it is waited for, and not stored.
            fields.push(("store", "false"));
            gone.push("background");
        }
        Api::Generate => {
            let given = splice::get(body, "sampling_params").map_err(DialectError::Body)?;
            let given = Bytes::copy_from_slice(given.filter(|raw| *raw != "null").unwrap_or("{}").as_bytes());
            // SGLang's name where the client speaks SGLang's; each engine refuses the other's.
            let of_sglang = splice::get(&given, NEW_TOKENS).map_err(DialectError::Body)?.is_some();
            let limit = if of_sglang { NEW_TOKENS } else { "max_tokens" };
            let one = splice::edit(&given, &[(limit, "1")], &["min_tokens", "min_new_tokens", "n"]);
            sampling = one.map_err(DialectError::Body)?;
            fields.push(("sampling_params", std::str::from_utf8(&sampling).unwrap_or("{}")));
            if has("max_tokens")? {
                fields.push(("max_tokens", "1"));
            }
        }
        Api::Embeddings | Api::Other => return Err(DialectError::Api),
    }
    splice::edit(body, &fields, &gone).map_err(DialectError::Body)
}

/// The client's body with these members besides.
pub(super) fn with(ask: Ask<'_>, more: &[(&str, &str)]) -> Result<Bytes, DialectError> {
    match ask.api {
        Api::Embeddings | Api::Other => Err(DialectError::Api),
        _ => splice::set(ask.body, more).map_err(DialectError::Body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disagg::fixtures;

    #[test]
    fn the_limit_is_named_as_the_client_names_it() {
        for (sampling, expected) in [
            (
                r#"{"max_new_tokens":64,"min_new_tokens":2,"top_p":0.5}"#,
                r#"{"max_new_tokens":1,"top_p":0.5}"#,
            ),
            (r#"{"max_tokens":64}"#, r#"{"max_tokens":1}"#),
            ("{}", r#"{"max_tokens":1}"#),
        ] {
            let given = format!(r#"{{"text":"x","sampling_params":{sampling}}}"#);
            let (given, pair) = (Bytes::from(given), fixtures::pair());
            let body = body(Ask { api: Api::Generate, body: &given, pair: &pair }, &[]).unwrap();
            let body = splice::get(&body, "sampling_params").unwrap();
            assert_eq!(body, Some(expected));
        }
    }
}
