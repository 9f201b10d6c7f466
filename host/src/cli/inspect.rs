//! `sluicegate plugin inspect`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use super::output::{bad, read_plugin, tell};
use super::settings::{Settings, name};
use crate::plugin::anatomy::{Interface, Memory};
use crate::plugin::inspect::{Inspection, SetUp, inspect as load, short};

/// Loads the file as the proxy would.
pub(super) fn inspect(file: &Path, wasi_stub: bool, json: bool) -> ExitCode {
    let settings = Settings { wasi_stub, ..Settings::default() };
    let (bytes, config) = match read_plugin(file).and_then(|bytes| Ok((bytes, settings.of(file)?))) {
        Ok(both) => both,
        Err(problem) => return bad(&problem),
    };
    let found = match load(&bytes, &config) {
        Ok(found) => found,
        Err(error) => return bad(&error),
    };
    let (code, name, signature) = (code(&found), name(file), Signature::beside(file));
    if json {
        let mut value = found.to_json();
        if let Value::Object(members) = &mut value {
            members.insert("file".into(), name.into());
            members.insert("weight".into(), weight(&found, config.weight).map_or(Value::Null, short));
            members.insert("signature".into(), signature.as_str().into());
        }
        return tell(&format!("{value:#}\n"), code);
    }
    let told = tell(&shown(&name, &found, config.weight, &signature), code);
    match &found.refused {
        Some(reason) => bad(&format!("{}: refused: {reason}", file.display())),
        None => told,
    }
}

fn code(found: &Inspection) -> ExitCode {
    if found.refused.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What lies beside the file to prove where it comes from.
enum Signature {
    Absent,
    Present(PathBuf),
}

impl Signature {
    fn beside(file: &Path) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push(".sig");
        let path = PathBuf::from(path);
        if path.is_file() { Self::Present(path) } else { Self::Absent }
    }

    fn as_str(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Present(_) => "present",
        }
    }
}

fn weight(found: &Inspection, configured: Option<f32>) -> Option<f32> {
    configured.or(found.set_up.as_ref().map(|found| found.default_weight))
}

fn shown(name: &str, found: &Inspection, configured: Option<f32>, signature: &Signature) -> String {
    let kind = match found {
        Inspection { wrapped: true, .. } => ", a core module, made a component when it is loaded",
        Inspection { anatomy, .. } if anatomy.exports.is_empty() => "",
        Inspection { .. } => ", a component",
    };
    let mut text = String::new();
    let mut line = |key: &str, value: &str| {
        let _ = writeln!(text, "{key:<10}{value}");
    };
    line("name", name);
    if let Some(SetUp { version, summary, .. }) = &found.set_up {
        line("version", version);
        line("summary", summary);
    }
    line("stages", &or_none(&found.stages().join(", ")));
    line("contract", &or_none(&found.anatomy.contract().join(", ")));
    if let Some(weight) = weight(found, configured) {
        line("weight", &weight.to_string());
    }
    line("size", &format!("{} bytes{kind}", found.bytes));
    line("digest", &found.digest);
    line(
        "signature",
        &match signature {
            Signature::Absent => "absent".to_owned(),
            Signature::Present(path) => format!("present, not checked here: {}", path.display()),
        },
    );
    line("memory", &memory(&found.anatomy.memories, found.set_up.as_ref()));
    if let Some(set_up) = &found.set_up {
        line("columns", &or_none(&set_up.columns.join(", ")));
    }
    for (position, interface) in found.anatomy.imports.iter().enumerate() {
        line(if position == 0 { "imports" } else { "" }, &used(interface));
    }
    if let Some(set_up) = &found.set_up {
        for (position, key) in keys(&set_up.schema).iter().enumerate() {
            line(if position == 0 { "config" } else { "" }, key);
        }
    }
    text
}

fn or_none(list: &str) -> String {
    if list.is_empty() { "none".into() } else { list.into() }
}

fn used(Interface { name, functions }: &Interface) -> String {
    if functions.is_empty() { name.clone() } else { format!("{name}: {}", functions.join(", ")) }
}

fn memory(memories: &[Memory], set_up: Option<&SetUp>) -> String {
    let kib = |bytes: u64| format!("{} KiB", bytes >> 10);
    let each = memories.iter().map(|memory| match memory.maximum_bytes {
        Some(most) => format!("{} to {}", kib(memory.initial_bytes), kib(most)),
        None => format!("{} and up", kib(memory.initial_bytes)),
    });
    let mut text = or_none(&each.collect::<Vec<_>>().join(", "));
    if let Some(set_up) = set_up {
        let _ = write!(text, "; an instance takes {} KiB", set_up.instance_bytes >> 10);
    }
    text
}

/// The keys of a JSON Schema, a line each: name, type, default, meaning.
fn keys(schema: &Value) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return match schema {
            Value::Null => vec!["none".into()],
            other => vec![other.to_string()],
        };
    };
    let width = properties.keys().map(String::len).max().unwrap_or(0);
    let of = |key: &str, property: &Value| {
        let kind = property.get("type").and_then(Value::as_str).map(str::to_owned);
        let cases = property.get("enum").map(Value::to_string);
        let kind = kind.or(cases).unwrap_or_default();
        let default = property.get("default").map(|value| format!(" = {value}")).unwrap_or_default();
        let doc = property.get("description").and_then(Value::as_str).unwrap_or_default().trim();
        format!("{key:<width$}  {kind}{default}  {doc}").trim_end().to_owned()
    };
    properties.iter().map(|(key, property)| of(key, property)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_schema_are_listed() {
        let schema = serde_json::json!({"properties": {
            "zone": {"type": "string", "default": "", "description": " Where."},
            "when": {"enum": ["auto", "never"], "default": "auto"},
        }});
        let mut listed = keys(&schema);
        listed.sort_unstable();
        assert_eq!(listed, ["when  [\"auto\",\"never\"] = \"auto\"", "zone  string = \"\"  Where."]);
        assert_eq!(keys(&Value::Null), ["none"]);
    }
}
