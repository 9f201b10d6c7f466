//! JSON as text, and values as messages show them.

use serde_json::Value as Json;

/// Text as a JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for one in text.chars() {
        match one {
            '"' | '\\' => quoted.extend(['\\', one]),
            '\n' => quoted.push_str("\\n"),
            // Other control characters are nothing that a schema needs.
            _ if one.is_control() => quoted.push(' '),
            _ => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}

/// A value as a message shows it.
#[must_use]
pub fn shown(json: &Json) -> String {
    match json {
        Json::Null => "null".into(),
        Json::Bool(value) => value.to_string(),
        Json::Number(value) => value.to_string(),
        Json::String(text) => quoted(text),
        Json::Array(_) => "a list".into(),
        Json::Object(_) => "an object".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_json() {
        let text = "a \"b\" \\ c\nd";
        assert_eq!(serde_json::from_str::<String>(&quoted(text)).unwrap(), text);
        assert!(serde_json::from_str::<String>(&quoted("\u{1}")).is_ok());
    }
}
