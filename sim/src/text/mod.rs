//! Text as the simulated model sees it: tokens, block hashes, answers.

mod answer;
mod blocks;
mod prompt;
mod token;

pub use answer::{Words, answer_length, answer_token};
pub use blocks::{chain_seed, next_hash};
pub use prompt::{PromptError, chat, completion, messages, responses};
pub use token::{BYTES_PER_TOKEN, Token, push_text, token_text};
