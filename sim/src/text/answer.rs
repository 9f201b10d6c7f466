//! What the simulated model says: a function of the seed and the prompt alone.

use super::token::{Token, token_text};
use crate::rng::mix;
use std::collections::HashMap;

const CONSONANTS: &[u8; 16] = b"bcdfghjklmnprstv";
const VOWELS: &[u8; 4] = b"aeio";

/// Words of a real vocabulary.
#[derive(Debug, Default)]
pub struct Words {
    ids: Vec<Token>,
    texts: HashMap<Token, String>,
}

impl Words {
    /// Of these tokens with their texts.
    #[must_use]
    pub fn new(words: Vec<(Token, String)>) -> Self {
        Self { ids: words.iter().map(|(id, _)| *id).collect(), texts: words.into_iter().collect() }
    }

    /// As [`answer_token`], of these words; of none of them where there are none.
    #[must_use]
    pub fn answer_token(&self, prompt: u64, index: u32) -> Token {
        let bits = mix(prompt ^ mix(u64::from(index).wrapping_add(1)));
        let picked = self.ids.get(bits as usize % self.ids.len().max(1));
        picked.copied().unwrap_or_else(|| answer_token(prompt, index))
    }

    /// Appends a token's text to `out`.
    pub fn text(&self, token: Token, out: &mut String) {
        match self.texts.get(&token) {
            Some(text) => out.push_str(text),
            None => token_text(token, out),
        }
    }
}

/// The `index`-th token of the answer to the prompt whose hash is `prompt`.
///
/// It is three letters and a blank, so that an answer sent back in the next turn falls into the same tokens again
/// and finds the blocks that were filled while it was generated.
#[must_use]
pub fn answer_token(prompt: u64, index: u32) -> Token {
    let bits = mix(prompt ^ mix(u64::from(index).wrapping_add(1)));
    let pick = |letters: &[u8], shift: u32| {
        let position = (bits >> shift) as usize % letters.len().max(1);
        letters.get(position).copied().unwrap_or(b'a')
    };
    Token::from_le_bytes([pick(CONSONANTS, 0), pick(VOWELS, 8), pick(CONSONANTS, 16), b' '])
}

/// Tokens of the answer when the request sets no limit: 16 to 255, by prompt.
#[must_use]
pub fn answer_length(prompt: u64) -> u32 {
    16 + (mix(prompt ^ 0x5eed) % 240) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::push_text;

    #[test]
    fn an_answer_tokenizes_to_itself() {
        let tokens: Vec<Token> = (0..50).map(|i| answer_token(9, i)).collect();
        let mut text = String::new();
        tokens.iter().for_each(|t| token_text(*t, &mut text));
        let mut again = Vec::new();
        push_text(&text, &mut again);
        assert_eq!(again, tokens);
        assert!((16..256).contains(&answer_length(9)));
    }
}
