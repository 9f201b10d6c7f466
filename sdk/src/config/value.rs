//! The types that a field of a configuration may have.

use std::collections::BTreeMap;

use serde_json::{Number, Value as Json};

use super::text::{quoted, shown};

/// The least and the greatest that a number may be.
pub type Limits = Option<(f64, f64)>;

/// A type that a field of a configuration may have.
///
/// The schema is put together as text: a plugin that carried a writer for JSON would be half as large again.
pub trait Value: Sized {
    /// What JSON Schema says of the type: the members of an object, such as `"type":"boolean"`.
    fn schema(limits: Limits) -> String;
    /// Reads a value; the error says what was expected.
    ///
    /// # Errors
    /// When the value is none of this type, or is beyond the limits.
    fn read(json: &Json, limits: Limits) -> Result<Self, String>;
    /// The value as JSON.
    fn write(&self) -> String;
}

fn number(json: &Json, limits: Limits, kind: &str) -> Result<f64, String> {
    let value = json.as_f64().ok_or_else(|| format!("expected {kind}, found {}", shown(json)))?;
    match limits {
        Some((least, greatest)) if !(least..=greatest).contains(&value) => Err(format!(
            "expected {kind} from {} to {}, found {}",
            written(least),
            written(greatest),
            written(value)
        )),
        _ => Ok(value),
    }
}

fn number_schema(kind: &str, limits: Limits) -> String {
    let mut schema = format!("\"type\":\"{kind}\"");
    if let Some((least, greatest)) = limits {
        schema.push_str(",\"minimum\":");
        schema.push_str(&written(least));
        schema.push_str(",\"maximum\":");
        schema.push_str(&written(greatest));
    }
    schema
}

/// A number as people write it.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn written(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return (value as i64).to_string();
    }
    Number::from_f64(value).map_or_else(|| "null".into(), |number| number.to_string())
}

impl Value for f32 {
    fn schema(limits: Limits) -> String {
        number_schema("number", limits)
    }
    #[expect(clippy::cast_possible_truncation, reason = "a setting of f32's precision")]
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        number(json, limits, "a number").map(|value| value as Self)
    }
    fn write(&self) -> String {
        // Rounded, or 0.1 would be written 0.10000000149011612.
        written((f64::from(*self) * 1e6).round() / 1e6)
    }
}

impl Value for f64 {
    fn schema(limits: Limits) -> String {
        number_schema("number", limits)
    }
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        number(json, limits, "a number")
    }
    fn write(&self) -> String {
        written(*self)
    }
}

impl Value for u32 {
    fn schema(limits: Limits) -> String {
        number_schema("integer", limits.or(Some((0.0, f64::from(Self::MAX)))))
    }
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        number(json, limits.or(Some((0.0, f64::from(Self::MAX)))), "a whole number")?;
        let whole = json.as_u64().and_then(|value| Self::try_from(value).ok());
        whole.ok_or_else(|| format!("expected a whole number, found {}", shown(json)))
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn schema(_limits: Limits) -> String {
        "\"type\":\"boolean\"".into()
    }
    fn read(json: &Json, _limits: Limits) -> Result<Self, String> {
        json.as_bool().ok_or_else(|| format!("expected true or false, found {}", shown(json)))
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    fn schema(_limits: Limits) -> String {
        "\"type\":\"string\"".into()
    }
    fn read(json: &Json, _limits: Limits) -> Result<Self, String> {
        json.as_str().map(str::to_owned).ok_or_else(|| format!("expected text, found {}", shown(json)))
    }
    fn write(&self) -> String {
        quoted(self)
    }
}

impl<T: Value> Value for Option<T> {
    fn schema(limits: Limits) -> String {
        format!("\"anyOf\":[{{{}}},{{\"type\":\"null\"}}]", T::schema(limits))
    }
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        if json.is_null() { Ok(None) } else { T::read(json, limits).map(Some) }
    }
    fn write(&self) -> String {
        self.as_ref().map_or_else(|| "null".into(), Value::write)
    }
}

impl<T: Value> Value for Vec<T> {
    fn schema(limits: Limits) -> String {
        format!("\"type\":\"array\",\"items\":{{{}}}", T::schema(limits))
    }
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        let items = json.as_array().ok_or_else(|| format!("expected a list, found {}", shown(json)))?;
        items.iter().map(|item| T::read(item, limits)).collect()
    }
    fn write(&self) -> String {
        let items: Vec<String> = self.iter().map(Value::write).collect();
        format!("[{}]", items.join(","))
    }
}

impl<T: Value> Value for BTreeMap<String, T> {
    fn schema(limits: Limits) -> String {
        format!("\"type\":\"object\",\"additionalProperties\":{{{}}}", T::schema(limits))
    }
    fn read(json: &Json, limits: Limits) -> Result<Self, String> {
        let entries = json.as_object().ok_or_else(|| format!("expected an object, found {}", shown(json)))?;
        let mut read = Self::new();
        for (key, value) in entries {
            let value = T::read(value, limits).map_err(|problem| format!("at `{key}`: {problem}"))?;
            read.insert(key.clone(), value);
        }
        Ok(read)
    }
    fn write(&self) -> String {
        let entries: Vec<String> =
            self.iter().map(|(key, value)| format!("{}:{}", quoted(key), value.write())).collect();
        format!("{{{}}}", entries.join(","))
    }
}
