//! The ids that vLLM computes, recorded from vLLM itself by `tests/real/vllm/record_tokens.py`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;
use crate::types::Api;

#[derive(Deserialize)]
struct Case {
    name: String,
    tokenizer: String,
    template: String,
    api: Api,
    body: Box<RawValue>,
    ids: Option<Vec<u32>>,
}

/// What is rendered by vLLM and not here, because it is not certain how: these hold whole numbers beyond 64 bits, and a
/// zero that is negative.
const LEFT: &[(&str, NoTokens)] = &[("large number", NoTokens::Unknown), ("two calls", NoTokens::Unknown)];

fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokens/fixtures")
}

/// A tokenizer with one of the templates.
fn load(tokenizer: &str, template: &str) -> Tokenizer {
    let folder = tempfile::tempdir().unwrap();
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(fixtures().join(tokenizer).join(file), folder.path().join(file)).unwrap();
    }
    let template = fixtures().join(format!("templates/{template}.jinja"));
    std::fs::copy(template, folder.path().join("chat_template.jinja")).unwrap();
    Tokenizer::load(folder.path(), 1 << 20).unwrap()
}

#[test]
fn ids_are_those_of_vllm() {
    let cases = std::fs::read_to_string(fixtures().join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&cases).unwrap();
    let mut tokenizers = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let key = (case.tokenizer.as_str(), case.template.as_str());
        let tokenizer = tokenizers.entry(key).or_insert_with(|| load(key.0, key.1));
        let named = format!("{} {:?} {:?} {}", case.tokenizer, case.template, case.api, case.name);
        // The second time everything is there already.
        for _ in 0..2 {
            match (tokenizer.tokens(case.api, case.body.get().as_bytes()), &case.ids) {
                (Ok(ids), Some(expected)) if *ids == **expected => {}
                (Ok(ids), Some(expected)) => {
                    let at = ids.iter().zip(expected).take_while(|(a, b)| a == b).count();
                    wrong.push(format!(
                        "{named}: {} ids and not {}, from {at} on",
                        ids.len(),
                        expected.len()
                    ));
                }
                (Err(why), Some(_)) if LEFT.contains(&(&*case.name, why)) => {}
                (Err(why), Some(_)) => wrong.push(format!("{named}: {why}")),
                // What vLLM refuses has no ids that could be wrong.
                (_, None) => {}
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
