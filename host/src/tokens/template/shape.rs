//! What a template expects, read off its syntax as vLLM reads it.
//!
//! vLLM hands a template the parts of a message's content as a list when somewhere in it a loop goes over that
//! content, and one text otherwise. The loop is found by names: over the content of an item of `messages`, or of
//! what was set to them, or over `content`, or over a macro's parameter that was given such a content.

mod walk;

use minijinja::machinery::ast::{CallArg, Expr};
use minijinja::machinery::parse;

use walk::{Found, Loop};

/// How a message's content is handed to a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tokens) enum Content {
    /// One text.
    Text,
    /// A list of parts.
    Parts,
}

/// What is known of a template.
#[derive(Debug)]
pub(in crate::tokens) struct Shape {
    /// How it takes a message's content.
    pub(in crate::tokens) content: Content,
    /// Whether it knows the role of a developer.
    pub(in crate::tokens) developer: bool,
    /// Whether it names `content`, which is what a continued message is continued in.
    pub(in crate::tokens) names_content: bool,
    /// Whether how much is thought depends on the request.
    pub(in crate::tokens) effort: bool,
}

/// Members of an object that Python finds before its keys.
const METHODS: &[&str] =
    &["items", "keys", "values", "get", "pop", "copy", "update", "clear", "setdefault", "popitem"];

impl Shape {
    /// Reads a template.
    pub(super) fn of(source: &str) -> Result<Self, String> {
        let template =
            parse(source, "template", super::python::syntax()).map_err(|error| error.to_string())?;
        let mut found = Found::default();
        found.statement(&template, None);
        if let Some(name) = found.members.iter().find(|name| METHODS.contains(name)) {
            return Err(format!(
                "reads the member `.{name}` of a value without calling it: Python takes it for a method"
            ));
        }
        Ok(Self {
            content: if loops_over_content(&found) { Content::Parts } else { Content::Text },
            developer: source.contains("\"developer\"") || source.contains("'developer'"),
            names_content: source.contains("content"),
            effort: source.contains("reasoning_effort") || source.contains("enable_thinking"),
        })
    }
}

fn loops_over_content(found: &Found<'_, '_>) -> bool {
    let Some(messages) = assigned(found) else { return false };
    let over_messages = |one: &&Loop<'_, '_>| messages.iter().any(|name| is(one.iter, name, None));
    let message: Vec<&str> = found.loops.iter().filter(over_messages).filter_map(|one| one.target).collect();
    let content = |expr: &Expr<'_>| message.iter().any(|name| is(expr, name, Some("content")));
    let given = given_content(found, &content);
    found.loops.iter().any(|one| {
        let name = variable(one.iter);
        content(one.iter)
            || match one.within {
                Some(place) => name.is_some_and(|name| given.contains(&(place, name))),
                None => name == Some("content"),
            }
    })
}

/// The names that stand for messages; none where vLLM gives up.
fn assigned<'f>(found: &'f Found<'_, '_>) -> Option<Vec<&'f str>> {
    let mut names = vec!["messages"];
    let mut at = 0;
    while let Some(name) = names.get(at).copied() {
        for (target, _) in found.sets.iter().filter(|(_, value)| is(value, name, None)) {
            let target = variable(target)?;
            if !names.contains(&target) {
                names.push(target);
            }
        }
        at += 1;
    }
    Some(names)
}

/// Macros and those of their parameters that some call gives a message's content.
fn given_content<'f>(
    found: &'f Found<'_, '_>,
    content: &impl Fn(&Expr<'_>) -> bool,
) -> Vec<(usize, &'f str)> {
    let mut given = Vec::new();
    for (place, (name, parameters)) in found.macros.iter().enumerate() {
        for call in found.calls.iter().filter(|call| variable(&call.expr) == Some(name)) {
            for (at, argument) in call.args.iter().enumerate() {
                match argument {
                    CallArg::Pos(value) if content(value) => {
                        given.extend(parameters.get(at).map(|name| (place, *name)))
                    }
                    CallArg::Kwarg(key, value) if content(value) => {
                        given.extend(parameters.iter().find(|name| *name == key).map(|name| (place, *name)));
                    }
                    _ => {}
                }
            }
        }
    }
    given
}

/// The name of a variable, where an expression is nothing else.
fn variable<'a>(expr: &Expr<'a>) -> Option<&'a str> {
    if let Expr::Var(var) = expr { Some(var.id) } else { None }
}

/// Whether an expression is the variable of this name, or its member; filtered, tested or a slice of it.
fn is(expr: &Expr<'_>, name: &str, key: Option<&str>) -> bool {
    match (expr, key) {
        (Expr::Filter(filter), _) => filter.expr.as_ref().is_some_and(|inner| is(inner, name, key)),
        (Expr::Test(test), _) => is(&test.expr, name, key),
        (Expr::Slice(slice), _) => is(&slice.expr, name, key),
        (_, None) => variable(expr) == Some(name),
        (Expr::GetAttr(get), Some(key)) => get.name == key && variable(&get.expr) == Some(name),
        (Expr::GetItem(get), Some(key)) => {
            let constant =
                if let Expr::Const(constant) = &get.subscript_expr { constant.value.as_str() } else { None };
            constant == Some(key) && variable(&get.expr) == Some(name)
        }
        _ => false,
    }
}
