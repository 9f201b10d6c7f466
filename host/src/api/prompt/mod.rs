//! The canonical prompt: what of a body decides the engine's prompt, in the order in which it does.
//!
//! Two properties hold for every API. *Unambiguous*: no two conversations that an engine tells apart have
//! the same bytes, because the marks between parts ([`frame`]) are bytes that UTF-8 never uses. *Prefix stable*: what
//! stands before the messages comes first, nothing tells a length, and so a conversation's next turn
//! begins with the bytes of the one before. Left out is what changes between turns without changing the
//! prompt: `cache_control`, ids and states of items, the order of keys within a message.

mod chat;
mod frame;
mod part;
mod responses;
mod tokens;

use super::facts::{BodyError, Stop};
use super::json::{Scanner, Value};
use crate::types::{Api, Prompt};

/// The parts of the prompt that a scan has met.
#[derive(Debug, Default)]
pub(super) struct Draft<'a> {
    /// `tools`, or `functions`.
    tools: Value<'a>,
    functions: Value<'a>,
    documents: Value<'a>,
    /// `system` or `instructions`.
    system: Value<'a>,
    /// What a prompt may continue: `previous_response_id`, `conversation`, a stored `prompt`.
    previous: Value<'a>,
    conversation: Value<'a>,
    stored: Value<'a>,
    embeds: bool,
    /// Messages or items.
    talk: Option<Talk>,
    /// A prompt that is no conversation.
    plain: Option<Prompt>,
}

/// Messages in canonical form.
#[derive(Debug, Default)]
pub(super) struct Talk {
    bytes: Vec<u8>,
    /// Messages of the user.
    users: u32,
}

/// The prompt and the turn of a body.
#[derive(Debug)]
pub(super) struct Finished {
    pub prompt: Option<Prompt>,
    pub turn: u32,
}

impl<'a> Draft<'a> {
    /// Takes the value of `key` off the scanner if it is the prompt itself, which is read in place.
    pub(super) fn take(&mut self, api: Api, key: &[u8], scan: &mut Scanner<'a>) -> Option<Result<(), Stop>> {
        let taken = match (api, key) {
            (Api::Chat | Api::Messages | Api::Embeddings, b"messages") => {
                chat::messages(scan).map(|talk| self.talk = talk)
            }
            (Api::Responses, b"input") => responses::input(scan).map(|talk| self.talk = talk),
            (Api::Embeddings, b"input") => tokens::all("input", scan).map(|plain| self.plain = plain),
            (Api::Completions | Api::Generate, b"prompt") => self.plain("prompt", scan),
            (Api::Generate, b"text") => self.plain("text", scan),
            (Api::Generate, b"input_ids") => self.plain("input_ids", scan),
            (Api::Generate, b"token_ids") => self.plain("token_ids", scan),
            _ => return None,
        };
        Some(taken)
    }

    fn plain(&mut self, field: &'static str, scan: &mut Scanner<'a>) -> Result<(), Stop> {
        // `text: null` beside `input_ids` takes nothing away.
        if let Some(prompt) = tokens::first(field, scan)? {
            self.plain = Some(prompt);
        }
        Ok(())
    }

    /// Keeps any other value that belongs to the prompt.
    pub(super) fn note(&mut self, api: Api, key: &[u8], value: Value<'a>) {
        match (api, key) {
            (Api::Chat | Api::Messages | Api::Responses, b"tools") => self.tools = value,
            (Api::Chat, b"functions") => self.functions = value,
            (Api::Chat, b"documents") => self.documents = value,
            (Api::Messages, b"system") | (Api::Responses, b"instructions") => self.system = value,
            (Api::Responses, b"previous_response_id") => self.previous = value,
            (Api::Responses, b"conversation") => self.conversation = value,
            (Api::Responses, b"prompt") => self.stored = value,
            (Api::Completions | Api::Generate, b"prompt_embeds" | b"input_embeds" | b"image_data") => {
                self.embeds = !value.is_null();
            }
            _ => {}
        }
    }

    /// The canonical prompt.
    pub(super) fn finish(self, api: Api) -> Result<Finished, BodyError> {
        let missing = |field| Err(BodyError::Missing { field });
        let turn = self.talk.as_ref().map_or(0, |talk| talk.users.saturating_sub(1));
        let prompt = match api {
            Api::Chat | Api::Messages if self.talk.is_none() => return missing("messages"),
            Api::Responses if self.talk.is_none() && self.stored.is_null() => return missing("input"),
            Api::Chat | Api::Messages | Api::Responses => Some(self.conversation()),
            Api::Embeddings if self.plain.is_none() => match self.talk {
                Some(talk) => Some(Prompt::Text(talk.bytes)),
                None => return missing("input"),
            },
            Api::Completions if self.plain.is_none() && !self.embeds => return missing("prompt"),
            Api::Generate if self.plain.is_none() && !self.embeds => return missing("text"),
            Api::Embeddings | Api::Completions | Api::Generate => self.plain,
            Api::Other => None,
        };
        Ok(Finished { prompt, turn })
    }

    /// What comes first, then the messages.
    fn conversation(self) -> Prompt {
        let mut head = Vec::new();
        for (kind, value) in [(b'P', self.previous), (b'V', self.conversation), (b'R', self.stored)] {
            frame::head(kind, value, &mut head);
        }
        for (kind, value) in [(b'T', self.tools), (b'F', self.functions), (b'D', self.documents)] {
            frame::tools(kind, value, &mut head);
        }
        if !self.system.is_null() {
            frame::open_head(b'S', &mut head);
            part::content(self.system, &mut head);
        }
        let mut talk = self.talk.unwrap_or_default().bytes;
        if head.is_empty() {
            if talk.capacity() > talk.len().saturating_mul(2) {
                talk.shrink_to_fit();
            }
            return Prompt::Text(talk);
        }
        head.reserve_exact(talk.len());
        head.append(&mut talk);
        Prompt::Text(head)
    }
}

/// How much room a canonical prompt gets at first.
fn room(scan: &Scanner<'_>) -> usize {
    const MOST: usize = 1 << 20;
    scan.left().min(MOST)
}

#[cfg(test)]
mod tests;
