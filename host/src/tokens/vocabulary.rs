//! Text to ids, and where a text may be cut.
//!
//! A tokenizer first searches a text for special tokens and then tokenizes what lies between them, each stretch for
//! itself. So a text may be cut before a special token, and the ids of the pieces are those of the whole, unless
//! the token takes in the blanks before it or is one only between non-words: then the text is not cut there, or
//! not at all. The search is the library's own: leftmost, longest.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::{AddedToken, Tokenizer};

use super::NoTokens;
use super::cache::Cache;
use super::folder::{Folder, LoadError};
use super::settings::{Added, Settings};

const FILE: &str = "tokenizer.json";
/// A text of which it can be seen what is put around it.
const SAMPLE: &str = "a b";

/// A model's tokenizer.
#[derive(Debug)]
pub(super) struct Vocabulary {
    inner: Tokenizer,
    cuts: Option<Cuts>,
    around: Option<Around>,
}

/// Where a text may be cut.
#[derive(Debug)]
struct Cuts {
    search: AhoCorasick,
    /// By pattern: whether a text may be cut before it.
    before: Vec<bool>,
}

/// Ids that are put before and after a text when special tokens are asked for.
#[derive(Debug)]
struct Around {
    before: Vec<u32>,
    after: Vec<u32>,
}

impl Vocabulary {
    /// Loads `tokenizer.json`, as changed by the settings beside it.
    pub(super) fn load(folder: &Folder, settings: &Settings) -> Result<Self, LoadError> {
        let file = folder.file(FILE);
        let Some(bytes) = folder.read(FILE)? else { return Err(LoadError::Missing(file)) };
        // The file is foreign, and the library takes much of it at its word.
        catch_unwind(AssertUnwindSafe(|| Self::build(&bytes, settings)))
            .unwrap_or_else(|_| Err("its content makes the tokenizer's library panic".into()))
            .map_err(|message| LoadError::broken(&file, message))
    }

    fn build(bytes: &[u8], settings: &Settings) -> Result<Self, String> {
        let mut inner = Tokenizer::from_bytes(bytes).map_err(|error| format!("is no tokenizer: {error}"))?;
        inner.with_truncation(None).map_err(|error| error.to_string())?;
        inner.with_padding(None);
        inner.set_encode_special_tokens(settings.split_specials);
        add_missing(&mut inner, settings)?;
        let cuts = if settings.split_specials { None } else { Cuts::of(&inner) };
        let around = Around::of(&inner);
        Ok(Self { inner, cuts, around })
    }

    /// The ids of a text, with what the model puts around it when `special`.
    pub(super) fn ids(&self, text: &str, special: bool, cache: &Cache) -> Result<Vec<u32>, NoTokens> {
        let around = match (&self.around, special) {
            (_, false) => None,
            (Some(around), true) => Some(around),
            (None, true) => return self.encode(text, true),
        };
        let mut ids = around.map_or_else(Vec::new, |around| around.before.clone());
        for piece in self.pieces(text) {
            ids.extend_from_slice(&cache.ids(piece, |piece| self.encode(piece, false))?);
        }
        ids.extend(around.iter().flat_map(|around| &around.after));
        Ok(ids)
    }

    /// Tokens that are a blank, as vocabularies write it, and a word.
    pub(super) fn words(&self) -> Vec<(u32, String)> {
        let ids = 0..u32::try_from(self.inner.get_vocab_size(true)).unwrap_or(0);
        let word = |id| {
            let token = self.inner.id_to_token(id)?;
            let word = token.strip_prefix(['Ġ', '▁']).filter(|word| word.len() > 1)?;
            word.bytes().all(|byte| byte.is_ascii_lowercase()).then(|| (id, format!(" {word}")))
        };
        ids.filter_map(word).collect()
    }

    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, NoTokens> {
        let encoded = self.inner.encode_fast(text, special).map_err(|_| NoTokens::Failed)?;
        Ok(encoded.get_ids().to_vec())
    }

    /// The text, cut wherever that changes nothing.
    fn pieces<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let cuts = self.cuts.iter().flat_map(move |cuts| cuts.places(text));
        let mut from = 0;
        cuts.chain([text.len()]).filter_map(move |to| {
            let piece = text.get(from..to).filter(|piece| !piece.is_empty());
            from = to;
            piece
        })
    }
}

impl Cuts {
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let added = tokenizer.get_added_tokens_decoder();
        // Whether such a token is one depends on both its neighbours, wherever the text is cut.
        if added.values().any(|token| token.single_word) {
            return None;
        }
        let searched: Vec<_> = added.values().filter(|token| !token.normalized).collect();
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(searched.iter().map(|token| &token.content))
            .ok()?;
        Some(Self { search, before: searched.iter().map(|token| !token.lstrip).collect() })
    }

    fn places(&self, text: &str) -> impl Iterator<Item = usize> {
        let found = self.search.find_iter(text);
        found
            .filter(|found| self.before.get(found.pattern().as_usize()) == Some(&true))
            .map(|found| found.start())
    }
}

impl Around {
    /// What surrounds a sample; none when the sample's own ids are not found again.
    fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let bare = tokenizer.encode_fast(SAMPLE, false).ok()?;
        let whole = tokenizer.encode_fast(SAMPLE, true).ok()?;
        let (bare, whole) = (bare.get_ids(), whole.get_ids());
        if bare.is_empty() {
            return None;
        }
        let at = whole.windows(bare.len()).position(|window| window == bare)?;
        let (before, rest) = whole.split_at_checked(at)?;
        Some(Self { before: before.into(), after: rest.get(bare.len()..)?.into() })
    }
}

/// Adds what the settings name and the vocabulary lacks, as transformers does.
fn add_missing(tokenizer: &mut Tokenizer, settings: &Settings) -> Result<(), String> {
    let known = tokenizer.get_added_tokens_decoder();
    let known = |content: &str| known.values().any(|token| token.content == content);
    let listed = settings.added.values().filter(|token| !known(&token.content)).map(added);
    let mut missing: Vec<AddedToken> = listed.collect();
    for (_, content) in &settings.specials {
        if !known(content) && !missing.iter().any(|token| token.content == *content) {
            missing.push(AddedToken::from(content.clone(), true));
        }
    }
    tokenizer.add_tokens(missing).map(drop).map_err(|error| error.to_string())
}

fn added(token: &Added) -> AddedToken {
    AddedToken::from(token.content.clone(), token.special)
        .lstrip(token.lstrip)
        .rstrip(token.rstrip)
        .single_word(token.single_word)
        .normalized(token.normalized.unwrap_or(!token.special))
}

#[cfg(test)]
#[path = "vocabulary_tests.rs"]
mod tests;
