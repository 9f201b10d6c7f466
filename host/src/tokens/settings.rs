//! What a model's files say beside the vocabulary: special tokens and templates. What is put around a text that is no
//! conversation is said by `tokenizer.json` alone; `add_bos_token` beside it is not heard.
//!
//! As transformers reads them: `chat_template.jinja` (with the files of `additional_chat_templates`) goes before
//! what `tokenizer_config.json` holds, which is a template or a list of named ones.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::folder::{Folder, LoadError};

const CONFIG: &str = "tokenizer_config.json";
/// Families whose conversations vLLM renders with code of its own, whatever template they come with.
const OWN_FORMATS: &[&str] =
    &["gpt_oss", "deepseek_v32", "deepseek_v4", "deepseek_v41", "kimi_k3", "kimi_audio", "inkling"];

/// What is known of a model beside its vocabulary.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// `bos_token` and its like, by name.
    pub(super) specials: Vec<(&'static str, String)>,
    /// Whether special tokens in a text are taken for plain text.
    pub(super) split_specials: bool,
    /// Tokens beside the vocabulary, by id.
    pub(super) added: BTreeMap<u32, Added>,
    /// Templates by name; `default` is the one without tools.
    pub(super) templates: Vec<(String, String)>,
    /// Whether engines render conversations of this family with code of their own.
    pub(super) own_format: bool,
}

/// `tokenizer_config.json`, as far as it matters.
#[derive(Debug, Default, Deserialize)]
struct Raw {
    #[serde(flatten)]
    specials: Specials,
    split_special_tokens: Option<bool>,
    #[serde(default)]
    added_tokens_decoder: BTreeMap<u32, Added>,
    chat_template: Option<RawTemplates>,
}

/// Also the whole of `special_tokens_map.json`.
#[derive(Debug, Default, Deserialize)]
struct Specials {
    bos_token: Option<Token>,
    eos_token: Option<Token>,
    unk_token: Option<Token>,
    sep_token: Option<Token>,
    pad_token: Option<Token>,
    cls_token: Option<Token>,
    mask_token: Option<Token>,
}

impl Specials {
    fn named(self) -> [(&'static str, Option<Token>); 7] {
        [
            ("bos_token", self.bos_token),
            ("eos_token", self.eos_token),
            ("unk_token", self.unk_token),
            ("sep_token", self.sep_token),
            ("pad_token", self.pad_token),
            ("cls_token", self.cls_token),
            ("mask_token", self.mask_token),
        ]
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Token {
    Text(String),
    Whole(Added),
}

/// A token that text is searched for before it is tokenized.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Added {
    pub(super) content: String,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) single_word: bool,
    pub(super) normalized: Option<bool>,
    #[serde(default)]
    pub(super) special: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawTemplates {
    One(String),
    Named(Vec<Named>),
}

#[derive(Debug, Deserialize)]
struct Named {
    name: String,
    template: String,
}

#[derive(Debug, Default, Deserialize)]
struct ModelConfig {
    model_type: Option<String>,
}

impl Settings {
    /// Reads them.
    pub(super) fn read(folder: &Folder) -> Result<Self, LoadError> {
        let raw: Raw = folder.json(CONFIG)?.unwrap_or_default();
        let beside: Specials = folder.json("special_tokens_map.json")?.unwrap_or_default();
        let model: ModelConfig = folder.json("config.json")?.unwrap_or_default();
        let specials = raw.specials.named().into_iter().zip(beside.named());
        let specials = specials.filter_map(|((name, own), (_, beside))| {
            let (Token::Text(content) | Token::Whole(Added { content, .. })) = own.or(beside)?;
            Some((name, content))
        });
        Ok(Self {
            specials: specials.collect(),
            split_specials: raw.split_special_tokens.unwrap_or(false),
            added: raw.added_tokens_decoder,
            templates: templates(folder, raw.chat_template)?,
            own_format: model.model_type.is_some_and(|family| OWN_FORMATS.contains(&family.as_str())),
        })
    }
}

fn templates(folder: &Folder, configured: Option<RawTemplates>) -> Result<Vec<(String, String)>, LoadError> {
    if let Some(default) = folder.text("chat_template.jinja")? {
        let mut all = vec![("default".to_owned(), default)];
        // The only other name that is ever chosen without being asked for.
        if let Some(with_tools) = folder.text("additional_chat_templates/tool_use.jinja")? {
            all.push(("tool_use".to_owned(), with_tools));
        }
        return Ok(all);
    }
    Ok(match configured {
        None => Vec::new(),
        Some(RawTemplates::One(template)) => vec![("default".to_owned(), template)],
        Some(RawTemplates::Named(all)) => all.into_iter().map(|one| (one.name, one.template)).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn special_tokens_and_templates_have_several_shapes() {
        let dir = tempfile::tempdir().unwrap();
        let config = r#"{"bos_token": {"content": "<s>", "lstrip": false}, "eos_token": "</s>", "pad_token": null,
            "add_bos_token": true, "model_max_length": 1e30,
            "added_tokens_decoder": {"7": {"content": "<x>", "special": true}},
            "chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}"#;
        fs::write(dir.path().join(CONFIG), config).unwrap();
        fs::write(dir.path().join("special_tokens_map.json"), r#"{"pad_token": "<p>", "eos_token": "no"}"#)
            .unwrap();
        let read = || Settings::read(&Folder::open(dir.path()).unwrap()).unwrap();
        let settings = read();
        let specials = [("bos_token", "<s>"), ("eos_token", "</s>"), ("pad_token", "<p>")];
        assert_eq!(settings.specials, specials.map(|(name, content)| (name, content.to_owned())));
        assert!(settings.added[&7].special && settings.added[&7].normalized.is_none());
        let named = |settings: &Settings| {
            settings.templates.iter().map(|(name, text)| format!("{name}={text}")).collect::<Vec<_>>()
        };
        assert_eq!(named(&settings), ["default=a", "tool_use=b"]);
        fs::write(dir.path().join("chat_template.jinja"), "c").unwrap();
        fs::write(dir.path().join("config.json"), r#"{"model_type": "gpt_oss"}"#).unwrap();
        assert_eq!(named(&read()), ["default=c"]);
        assert!(read().own_format);
    }
}
