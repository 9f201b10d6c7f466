//! A model's tokenizer and templates, loaded.

use std::path::Path;
use std::sync::Arc;

use super::NoTokens;
use super::cache::Cache;
use super::folder::{Folder, LoadError};
use super::render::{self, Conversations, Prompt};
use super::settings::Settings;
use super::template::Templates;
use super::vocabulary::Vocabulary;
use crate::types::Api;

/// What turns requests for one model into token ids. Any number of threads may use it.
#[derive(Debug)]
pub struct Tokenizer {
    vocabulary: Vocabulary,
    templates: Option<Templates>,
    specials: Vec<(&'static str, String)>,
    cache: Cache,
}

impl Tokenizer {
    /// Loads a model's folder, or its entry in a hub cache. `cache_bytes` is what it may keep of texts that it met.
    ///
    /// # Errors
    /// When a file is missing or broken.
    pub fn load(folder: &Path, cache_bytes: usize) -> Result<Self, LoadError> {
        let folder = Folder::open(folder)?;
        if let Some(file) = folder.beginning("tekken.json").or_else(|| folder.beginning("tokenizer.model.v"))
        {
            return Err(LoadError::MistralCommon(file));
        }
        let settings = Settings::read(&folder)?;
        let vocabulary = Vocabulary::load(&folder, &settings)?;
        let templates = match settings.own_format {
            true => None,
            false => Templates::compile(&settings.templates).map_err(|message| {
                LoadError::broken(&folder.file("chat_template.jinja"), format!("the chat template {message}"))
            })?,
        };
        Ok(Self { vocabulary, templates, specials: settings.specials, cache: Cache::new(cache_bytes) })
    }

    /// The ids that an engine computes for a body of `api`.
    ///
    /// # Errors
    /// Why they are not known.
    pub fn tokens(&self, api: Api, body: &[u8]) -> Result<Arc<[u32]>, NoTokens> {
        match self.prompt(api, body)? {
            Prompt::Text { text, special } => Ok(self.vocabulary.ids(&text, special, &self.cache)?.into()),
            Prompt::Ids(ids) => Ok(ids.into()),
        }
    }

    /// Tokens that are a blank and a word of lower-case letters, with their texts. Said one after the other they
    /// are the tokens of what was said: words for a simulated model.
    #[must_use]
    pub fn words(&self) -> Vec<(u32, String)> {
        self.vocabulary.words()
    }

    fn prompt(&self, api: Api, body: &[u8]) -> Result<Prompt, NoTokens> {
        let conversations = Conversations { templates: self.templates.as_ref(), specials: &self.specials };
        render::prompt(api, body, &conversations)
    }
}
