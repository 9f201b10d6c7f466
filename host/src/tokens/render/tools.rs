//! Definitions of tools, with the members in the order in which vLLM writes them.

use minijinja::value::{Value, ValueKind};

use crate::tokens::NoTokens;
use crate::tokens::value::{entries, is_object, items, member};

/// The tools of a chat: none without a list of them.
pub(super) fn of_chat(body: &Value) -> Result<Option<Value>, NoTokens> {
    list(member(body, "tools"), |tool| {
        kind(&tool)?;
        let later = member(&tool, "defer_loading");
        let function = member(&tool, "function").ok_or(NoTokens::Refused)?;
        definition(&function, "parameters", later)
    })
}

/// The tools of the Messages API.
pub(super) fn of_messages(body: &Value) -> Result<Option<Value>, NoTokens> {
    list(member(body, "tools"), |tool| {
        // What is executed by the provider has a type, and no schema.
        if member(&tool, "type").is_some_and(|kind| kind.as_str() != Some("custom")) {
            return Err(NoTokens::Unknown);
        }
        let schema = member(&tool, "input_schema").filter(is_object).ok_or(NoTokens::Refused)?;
        let mut schema = entries(&schema);
        if schema.iter().all(|(key, _)| key.as_str() != Some("type")) {
            schema.push(("type".into(), "object".into()));
        }
        let mut whole = entries(&tool);
        whole.retain(|(key, _)| key.as_str() != Some("input_schema"));
        whole.push(("input_schema".into(), Value::from_pairs(schema)));
        definition(&Value::from_pairs(whole), "input_schema", None)
    })
}

/// The tools of the Responses API: flat, and only functions are shown to the model.
pub(super) fn of_responses(body: &Value) -> Result<Option<Value>, NoTokens> {
    let tools = list(member(body, "tools"), |tool| {
        if member(&tool, "type").is_none_or(|kind| kind.as_str() != Some("function")) {
            return Err(NoTokens::Unknown);
        }
        definition(&tool, "parameters", None)
    })?;
    Ok(tools.filter(|tools| tools.len() != Some(0)))
}

fn list(
    tools: Option<Value>,
    convert: impl Fn(Value) -> Result<Value, NoTokens>,
) -> Result<Option<Value>, NoTokens> {
    let Some(tools) = tools else { return Ok(None) };
    let tools = items(&tools).ok_or(NoTokens::Refused)?;
    tools.map(convert).collect::<Result<Vec<_>, _>>().map(|tools| Some(Value::from(tools)))
}

fn kind(tool: &Value) -> Result<(), NoTokens> {
    match member(tool, "type") {
        None => Ok(()),
        Some(kind) if kind.as_str() == Some("function") => Ok(()),
        Some(_) => Err(NoTokens::Refused),
    }
}

fn definition(function: &Value, parameters: &str, later: Option<Value>) -> Result<Value, NoTokens> {
    let name = member(function, "name").filter(|name| name.as_str().is_some()).ok_or(NoTokens::Refused)?;
    let description = member(function, "description");
    if description.as_ref().is_some_and(|text| text.as_str().is_none()) {
        return Err(NoTokens::Refused);
    }
    let parameters = member(function, parameters);
    if parameters.as_ref().is_some_and(|schema| !is_object(schema)) {
        return Err(NoTokens::Refused);
    }
    let mut members: Vec<(&str, Value)> = vec![
        ("name", name),
        ("description", description.unwrap_or(Value::from(()))),
        ("parameters", parameters.unwrap_or(Value::from(()))),
    ];
    members.extend(truth(member(function, "strict"))?.map(|strict| ("strict", strict)));
    let own = truth(member(function, "defer_loading"))?;
    let later = truth(later)?;
    members.extend(own.or_else(|| later.clone()).map(|later| ("defer_loading", later)));
    let mut tool = vec![("type", Value::from("function")), ("function", Value::from_pairs(members))];
    tool.extend(later.map(|later| ("defer_loading", later)));
    Ok(Value::from_pairs(tool))
}

fn truth(value: Option<Value>) -> Result<Option<Value>, NoTokens> {
    match value {
        Some(value) if value.kind() != ValueKind::Bool => Err(NoTokens::Refused),
        other => Ok(other),
    }
}
