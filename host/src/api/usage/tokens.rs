//! Counts of tokens, under the names that APIs and engines give them.

use crate::api::facts::member;
use crate::api::json::{Fault, Scanner, Value};
use crate::types::{Api, Usage};

/// What was told so far. A count that was told stays until another one that is not zero is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    /// `prompt_tokens` or `input_tokens`.
    prompt: Option<u32>,
    output: Option<u32>,
    cached: Option<u32>,
    /// Anthropic's, which its `input_tokens` do not hold.
    cache_read: Option<u32>,
    cache_creation: Option<u32>,
    /// llama.cpp's, which hold everywhere, streams without usage included.
    timed_prompt: Option<u32>,
    timed_cached: Option<u32>,
    timed_output: Option<u32>,
}

impl Tokens {
    /// The counts of a `usage` object, or of SGLang's `meta_info`.
    pub(super) fn read(value: Value<'_>) -> Self {
        let mut tokens = Self::default();
        let Value::Object(raw) = value else { return tokens };
        let _ = Scanner::within(raw).object::<Fault>(|scan, key| {
            let value = scan.value()?;
            let place = match &*key.bytes() {
                b"prompt_tokens" | b"input_tokens" => &mut tokens.prompt,
                b"completion_tokens" | b"output_tokens" => &mut tokens.output,
                b"cached_tokens" | b"prompt_cache_hit_tokens" => &mut tokens.cached,
                b"cache_read_input_tokens" => &mut tokens.cache_read,
                b"cache_creation_input_tokens" => &mut tokens.cache_creation,
                b"prompt_tokens_details" | b"input_tokens_details" => {
                    let cached = member(value, b"cached_tokens").and_then(Value::count);
                    tokens.cached = cached.or(tokens.cached);
                    return Ok(());
                }
                _ => return Ok(()),
            };
            *place = value.count();
            Ok(())
        });
        tokens
    }

    /// The counts of llama.cpp's `timings`; `prompt_n` are the tokens that were not cached.
    pub(super) fn timings(value: Value<'_>) -> Self {
        let count = |name: &[u8]| member(value, name).and_then(Value::count);
        let timed_cached = count(b"cache_n");
        let timed_prompt =
            count(b"prompt_n").map(|fresh| fresh.saturating_add(timed_cached.unwrap_or_default()));
        Self { timed_prompt, timed_cached, timed_output: count(b"predicted_n"), ..Self::default() }
    }

    /// The counts in a text that is not whole: of each name the last object that tells any.
    pub(super) fn search(text: &[u8]) -> Self {
        let mut tokens = find(text, b"\"usage\"", Self::read);
        tokens.update(find(text, b"\"timings\"", Self::timings));
        if tokens == Self::default() {
            tokens = find(text, b"\"meta_info\"", Self::read);
        }
        tokens
    }

    /// Takes over what `later` tells.
    pub(super) fn update(&mut self, later: Self) {
        let update = |old: &mut Option<u32>, new: Option<u32>| {
            if new.is_some_and(|new| new > 0 || old.is_none()) {
                *old = new;
            }
        };
        update(&mut self.prompt, later.prompt);
        update(&mut self.output, later.output);
        update(&mut self.cached, later.cached);
        update(&mut self.cache_read, later.cache_read);
        update(&mut self.cache_creation, later.cache_creation);
        update(&mut self.timed_prompt, later.timed_prompt);
        update(&mut self.timed_cached, later.timed_cached);
        update(&mut self.timed_output, later.timed_output);
    }

    /// Usage, if anything was told.
    pub(super) fn usage(self, api: Api) -> Option<Usage> {
        let prompt = self.prompt.or(self.timed_prompt);
        let output = self.output.or(self.timed_output);
        if prompt.is_none() && output.is_none() {
            return None;
        }
        let mut usage = Usage {
            prompt_tokens: prompt.unwrap_or_default(),
            cached_tokens: self.cached.or(self.timed_cached),
            output_tokens: output.unwrap_or_default(),
        };
        if api == Api::Messages {
            let read = self.cache_read.unwrap_or_default();
            let creation = self.cache_creation.unwrap_or_default();
            usage.prompt_tokens = usage.prompt_tokens.saturating_add(read).saturating_add(creation);
            usage.cached_tokens = self.cache_read.or(usage.cached_tokens);
        }
        Some(usage)
    }
}

/// The last member of that name (quotes included) whose object tells something.
fn find(text: &[u8], name: &[u8], read: impl Fn(Value<'_>) -> Tokens) -> Tokens {
    for at in memchr::memmem::rfind_iter(text, name) {
        let escaped = at.checked_sub(1).and_then(|before| text.get(before)) == Some(&b'\\');
        let mut scan = Scanner::within(text.get(at + name.len()..).unwrap_or_default());
        if escaped || scan.peek() != Some(b':') {
            continue;
        }
        let mut scan = Scanner::within(text.get(at + name.len() + scan.at() + 1..).unwrap_or_default());
        if scan.peek() != Some(b'{') {
            continue;
        }
        if let Ok(value) = scan.value() {
            let tokens = read(value);
            if tokens != Tokens::default() {
                return tokens;
            }
        }
    }
    Tokens::default()
}
