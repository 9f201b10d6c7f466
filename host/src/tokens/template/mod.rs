//! A model's chat template, rendered as transformers renders it.
//!
//! Templates are written for Jinja in Python. minijinja is close to it; the difference lies in [`python`], and what
//! cannot be bridged is refused when the template is loaded ([`shape`]) or, where values decide, when it is
//! rendered. Steps, depth and output are bounded: a template is the operator's, what it is fed is anybody's.

mod python;
mod shape;
#[cfg(test)]
mod tests;

use std::io;

use minijinja::value::Value;
use minijinja::{Environment, ErrorKind};

use super::NoTokens;
pub(super) use shape::{Content, Shape};

/// Steps of a template, most of them an instruction: what ten thousand messages take twenty times.
const FUEL: u64 = 10_000_000;
const RECURSION: usize = 200;
/// Longest text that a template may write, bytes.
pub(super) const MAX_TEXT: usize = 32 << 20;

/// The templates of a model.
#[derive(Debug)]
pub(super) struct Templates {
    env: Environment<'static>,
    plain: Shape,
    /// In the place of the plain one when there are tools.
    with_tools: Option<Shape>,
    system_first: bool,
}

const PLAIN: &str = "default";
const WITH_TOOLS: &str = "tool_use";

impl Templates {
    /// Compiles them; none when there is no plain one. The error is in the template author's words.
    pub(super) fn compile(sources: &[(String, String)]) -> Result<Option<Self>, String> {
        let source = |name: &str| sources.iter().find(|(known, _)| known == name).map(|(_, source)| source);
        let mut env = python::environment();
        env.set_fuel(Some(FUEL));
        env.set_recursion_limit(RECURSION);
        let mut compile = |name: &'static str| match source(name) {
            None => Ok(None),
            Some(source) => {
                let source = python::without_marks(source);
                let shape = Shape::of(&source).map_err(|error| format!("{name}: {error}"))?;
                env.add_template_owned(name, source).map_err(|error| format!("{name}: {error}"))?;
                Ok::<_, String>(Some(shape))
            }
        };
        let (plain, with_tools) = (compile(PLAIN)?, compile(WITH_TOOLS)?);
        let system_first = [PLAIN, WITH_TOOLS]
            .iter()
            .filter_map(|name| source(name))
            .any(|source| wants_systems_first(source));
        Ok(plain.map(|plain| Self { env, plain, with_tools, system_first }))
    }

    /// What is known of the template that is rendered with tools, or without.
    pub(super) fn shape(&self, tools: bool) -> &Shape {
        self.with_tools.as_ref().filter(|_| tools).unwrap_or(&self.plain)
    }

    /// Whether system messages have to come first, in either template.
    pub(super) fn system_first(&self) -> bool {
        self.system_first
    }

    /// Renders the template for these variables.
    pub(super) fn render(&self, variables: Value, tools: bool) -> Result<String, NoTokens> {
        let name = if tools && self.with_tools.is_some() { WITH_TOOLS } else { PLAIN };
        let template = self.env.get_template(name).map_err(|_| NoTokens::NoTemplate)?;
        let mut out = Bounded { bytes: Vec::new(), full: false };
        if let Err(error) = template.render_captured_to(variables, &mut out) {
            return Err(if out.full || error.kind() == ErrorKind::OutOfFuel {
                NoTokens::TooLarge
            } else {
                python::reason(&error)
            });
        }
        let text = String::from_utf8(out.bytes).map_err(|_| NoTokens::Unreadable)?;
        // Python takes these for blanks and trims them, Rust does not.
        if text.bytes().any(|byte| matches!(byte, 0x1c..=0x1f)) {
            return Err(NoTokens::Unknown);
        }
        Ok(text)
    }
}

/// Whether vLLM takes a template for one that wants system messages first: it renders one with a late system message,
/// with nothing but what Jinja has itself. A template that needs more fails too, whatever it thinks of systems.
fn wants_systems_first(source: &str) -> bool {
    let mut env = python::bare();
    env.set_fuel(Some(FUEL));
    let message = |role: &str| Value::from_pairs([("role", role), ("content", "t")]);
    let messages: Value = ["system", "user", "system", "user"].map(message).into_iter().collect();
    let variables = Value::from_pairs([("messages", messages), ("add_generation_prompt", false.into())]);
    env.render_str(source, variables).is_err()
}

/// Bytes up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(more.len()) > MAX_TEXT {
            self.full = true;
            return Err(io::Error::other("the template writes too much"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
