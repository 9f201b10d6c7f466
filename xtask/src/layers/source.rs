//! The text of a file without what is no code of the product: comments, literals and unit tests.

use std::path::{Path, PathBuf};

/// A file's code. What was left out is blank, so that lines and places stay.
#[derive(Debug)]
pub(super) struct Source {
    /// The file, from the project's folder.
    pub(super) file: PathBuf,
    /// Its code.
    pub(super) code: String,
    /// Lines outside of unit tests, comments included.
    pub(super) lines: usize,
}

impl Source {
    pub(super) fn new(file: &Path, text: &str) -> Self {
        let mut code = blank_literals(text);
        let all = code.lines().count();
        let tests = blank_tests(&mut code);
        Self { file: file.to_path_buf(), code, lines: all - tests }
    }

    /// The line of a place in the code, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + self.code.bytes().take(at).filter(|byte| *byte == b'\n').count()
    }
}

/// Replaces comments, strings and characters by spaces.
fn blank_literals(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = literal(rest, after_word);
        let taken = if length == 0 { first.len_utf8() } else { length };
        let (head, tail) = rest.split_at(taken.min(rest.len()));
        if length == 0 {
            code.push_str(head);
        } else {
            code.extend(head.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = tail;
    }
    code
}

/// Bytes of the comment or literal at the beginning of `text`; 0 when there is none.
fn literal(text: &str, after_word: bool) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return block_comment(text);
    }
    if text.starts_with('"') {
        return string(text, 0);
    }
    if text.starts_with('\'') {
        return character(text);
    }
    if after_word {
        return 0;
    }
    let prefix = text.bytes().take_while(|byte| matches!(byte, b'b' | b'c' | b'r')).count();
    let hashes = text.bytes().skip(prefix).take_while(|byte| *byte == b'#').count();
    let quoted = text.get(prefix + hashes..).is_some_and(|rest| rest.starts_with('"'));
    if prefix == 0 || !quoted {
        return 0;
    }
    if text.get(..prefix).is_some_and(|prefix| prefix.contains('r')) {
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = prefix + hashes + 1;
        return text
            .get(begin..)
            .and_then(|rest| rest.find(&end))
            .map_or(text.len(), |at| begin + at + end.len());
    }
    string(text, prefix)
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn string(text: &str, prefix: usize) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip_while(|(at, _)| *at <= prefix) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// A lifetime has no second quote where a character has one.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => chars.skip(1).find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// Blanks what stands under `#[cfg(test)]`; says how many lines that were.
fn blank_tests(code: &mut String) -> usize {
    let mut lines = 0;
    while let Some(begin) = code.find("#[cfg(test)]") {
        let end = item_end(code, begin);
        let item = code.get(begin..end).unwrap_or_default();
        lines += item.lines().count();
        let blank: String = item.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        code.replace_range(begin..end, &blank);
    }
    lines
}

/// The end of the item that begins here: its closing brace, or a semicolon before any brace.
fn item_end(code: &str, begin: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices().skip_while(|(at, _)| *at < begin) {
        match c {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new(Path::new("x.rs"), text).code
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        for text in [
            "// crate::proxy\n",
            "/* a /* crate::proxy */ b */",
            r#"let a = "crate::proxy \" crate::proxy";"#,
            r###"let a = br#"crate::proxy " crate"#;"###,
            "let q = '\"'; // crate::proxy",
            "let q = '\\''; // crate::proxy",
        ] {
            assert!(!code(text).contains("crate"), "{text}: {}", code(text));
        }
    }

    #[test]
    fn what_follows_a_literal_is_code_again() {
        for text in [
            "let a = \"x\"; crate::proxy",
            "fn f<'a>(x: &'a str) { crate::proxy }",
            "let a = r\"\\\"; crate::proxy",
            "let number = b'\\''; crate::proxy",
        ] {
            assert!(code(text).contains("crate::proxy"), "{text}: {}", code(text));
        }
    }

    #[test]
    fn unit_tests_do_not_count() {
        let source =
            Source::new(Path::new("x.rs"), "fn a() {}\n#[cfg(test)]\nmod tests {\n  use crate::proxy;\n}\n");
        assert!(!source.code.contains("crate"));
        assert_eq!(source.lines, 1);
    }
}
