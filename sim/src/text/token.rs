//! The tokenizer: four bytes are one token.

/// A token id.
pub type Token = u32;

/// Bytes of text in one token; about what BPE vocabularies reach on English.
pub const BYTES_PER_TOKEN: usize = 4;

/// Appends the tokens of `text` to `out`: each four bytes become the number that they spell.
pub fn push_text(text: &str, out: &mut Vec<Token>) {
    out.reserve(text.len() / BYTES_PER_TOKEN + 1);
    for chunk in text.as_bytes().chunks(BYTES_PER_TOKEN) {
        let mut bytes = [0_u8; BYTES_PER_TOKEN];
        for (to, from) in bytes.iter_mut().zip(chunk) {
            *to = *from;
        }
        out.push(Token::from_le_bytes(bytes));
    }
}

/// Appends the text of `token` to `out`; bytes that are no printable ASCII become `?`.
pub fn token_text(token: Token, out: &mut String) {
    for byte in token.to_le_bytes() {
        match byte {
            0 => {}
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push('?'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bytes_are_one_token() {
        let mut out = Vec::new();
        push_text("abcdefghij", &mut out);
        assert_eq!(out.len(), 3);
        let mut text = String::new();
        for token in out {
            token_text(token, &mut text);
        }
        assert_eq!(text, "abcdefghij");
    }
}
