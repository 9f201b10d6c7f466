//! From JSON to a configuration.

use serde_json::{Map, Value as Json};

use super::nearest;
use super::text::{quoted, shown};
use super::value::{Limits, Value};

/// What is wrong with a configuration: every problem of it, not only the first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("; "))]
pub struct ConfigError(
    /// The problems; at least one.
    pub Vec<String>,
);

/// A configuration that [`config!`](crate::config!) declared.
pub trait Settings: Default {
    /// Every key.
    const KEYS: &'static [&'static str];

    /// JSON Schema of the configuration.
    #[must_use]
    fn schema() -> String {
        let mut schema = String::from(SCHEMA_HEAD);
        schema.push_str(&Self::properties().join(","));
        schema.push_str("}}");
        schema
    }

    /// What the schema says of each key, each as a member of an object.
    #[must_use]
    fn properties() -> Vec<String>;

    /// Reads what is there and leaves the rest at its default.
    #[must_use]
    fn read(fields: &mut Fields<'_>) -> Self;

    /// Reads a configuration; empty text is that of all defaults.
    ///
    /// # Errors
    /// When the text is no JSON object, has a key that does not exist, or a value that cannot be.
    fn parse(json: &str) -> Result<Self, ConfigError> {
        if json.trim().is_empty() {
            return Ok(Self::default());
        }
        let json: Json =
            serde_json::from_str(json).map_err(|error| ConfigError(vec![format!("no JSON: {error}")]))?;
        let Json::Object(json) = json else {
            return Err(ConfigError(vec![format!("expected an object, found {}", shown(&json))]));
        };
        let unknown = json.keys().filter(|key| !Self::KEYS.contains(&key.as_str())).map(|key| {
            let nearest = nearest(key, Self::KEYS.iter().copied()).unwrap_or_default();
            format!("unknown key `{key}`; the nearest known key is `{nearest}`")
        });
        let problems = unknown.collect();
        let mut fields = Fields { json: &json, problems };
        let settings = Self::read(&mut fields);
        if fields.problems.is_empty() { Ok(settings) } else { Err(ConfigError(fields.problems)) }
    }
}

/// The values of a configuration while it is read, and what was wrong with them.
#[derive(Debug)]
pub struct Fields<'a> {
    json: &'a Map<String, Json>,
    problems: Vec<String>,
}

impl Fields<'_> {
    /// The value of a key, or the default where there is none.
    pub fn take<T: Value>(&mut self, key: &str, limits: Limits, default: T) -> T {
        match self.json.get(key).map(|json| T::read(json, limits)) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(problem)) => {
                self.problems.push(format!("key `{key}`: {problem}"));
                default
            }
        }
    }
}

const SCHEMA_HEAD: &str = concat!(
    r#"{"$schema":"https://json-schema.org/draft/2020-12/schema","#,
    r#""type":"object","additionalProperties":false,"properties":{"#,
);

/// What the schema says of one key.
#[doc(hidden)]
#[must_use]
pub fn property<T: Value>(key: &str, doc: &str, limits: Limits, default: &T) -> String {
    let (schema, doc, default) = (T::schema(limits), quoted(doc.trim()), default.write());
    format!("\"{key}\":{{{schema},\"description\":{doc},\"default\":{default}}}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    crate::config_enum! {
        /// A choice.
        enum Choice {
            /// The one.
            One = "one",
            /// The other.
            Other = "other",
        }
    }

    crate::config! {
        /// Every type that there is.
        struct Everything {
            /// A "number".
            number: f32 = 0.1, in 0.0..=1.0;
            /// A count.
            count: u32 = 7;
            /// A switch.
            switch: bool = true;
            /// A text.
            text: String = "a \"b\"".into();
            /// Perhaps.
            perhaps: Option<f64> = None;
            /// Names.
            names: Vec<String> = vec!["a".into()];
            /// Weights.
            weights: BTreeMap<String, f32> = [("a".to_owned(), 2.5)].into(), in 0.0..=9.0;
            /// A choice.
            choice: Choice = Choice::Other;
        }
    }

    #[test]
    fn the_schema_is_json_and_its_defaults_are_the_defaults() {
        let schema: Json = serde_json::from_str(&Everything::schema()).unwrap();
        assert_eq!(schema["properties"]["number"]["maximum"], 1);
        assert_eq!(schema["properties"]["choice"]["enum"][0], "one");
        let defaults = schema["properties"].as_object().unwrap().iter();
        let defaults: Map<String, Json> =
            defaults.map(|(key, property)| (key.clone(), property["default"].clone())).collect();
        let read = Everything::parse(&Json::Object(defaults).to_string()).unwrap();
        assert_eq!(read, Everything::default());
        assert_ne!(Choice::One, read.choice);
    }

    #[test]
    fn every_problem_is_told() {
        let error = Everything::parse(r#"{"number": 2, "cuont": 1, "weights": {"a": []}}"#).unwrap_err();
        assert_eq!(
            error.0,
            [
                "unknown key `cuont`; the nearest known key is `count`",
                "key `number`: expected a number from 0 to 1, found 2",
                "key `weights`: at `a`: expected a number, found a list",
            ]
        );
        assert!(Everything::parse("[]").is_err());
        assert!(Everything::parse("{").is_err());
    }
}
