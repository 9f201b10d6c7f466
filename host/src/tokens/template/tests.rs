use minijinja::value::Value;

use super::*;

fn compile(source: &str) -> Templates {
    Templates::compile(&[("default".into(), source.into())]).unwrap().unwrap()
}

fn render(source: &str, variables: &str) -> Result<String, NoTokens> {
    compile(source).render(serde_json::from_str::<Value>(variables).unwrap(), false)
}

#[test]
fn values_are_written_as_python_writes_them() {
    let variables = r#"{"a": [null, true, 1, 1.0, 1e16, 1e-5, 0.1, 123456789.125, "it's", "\"", "é\n"], "o": {"z": 1, "a": []}}"#;
    let python = r#"[None, True, 1, 1.0, 1e+16, 1e-05, 0.1, 123456789.125, "it's", '"', 'é\n']"#;
    assert_eq!(render("{{ a }}", variables).unwrap(), python);
    assert_eq!(
        render("{{ o }} {{ none }} {{ true }} {{ o.z / 2 }}", variables).unwrap(),
        "{'z': 1, 'a': []} None True 0.5"
    );
}

#[test]
fn json_is_that_of_python() {
    let variables = r#"{"a": {"z": [1, 2.0, "<é&'\u2028\u0001"], "a": {}, "e": []}}"#;
    let python = "{\"z\": [1, 2.0, \"<é&'\u{2028}\\u0001\"], \"a\": {}, \"e\": []}";
    assert_eq!(render("{{ a | tojson }}", variables).unwrap(), python);
    let indented =
        "{\n  \"z\": [\n    1,\n    2.0,\n    \"<é&'\u{2028}\\u0001\"\n  ],\n  \"a\": {},\n  \"e\": []\n}";
    assert_eq!(render("{{ a | tojson(indent=2) }}", variables).unwrap(), indented);
    assert_eq!(render("{{ a.z[:2] | tojson(separators=(',', ':')) }}", variables).unwrap(), "[1,2.0]");
    for unknown in ["tojson(sort_keys=true)", "tojson(ensure_ascii=true)", "tojson(4)", "tojson(other=1)"] {
        assert!(render(&format!("{{{{ a | {unknown} }}}}"), variables).is_err(), "{unknown}");
    }
}

#[test]
fn what_python_may_write_otherwise_is_not_rendered() {
    for (source, variables) in [
        ("{{ a }}", r#"{"a": 99999999999999999999}"#),
        ("{{ a | tojson }}", r#"{"a": -0.0}"#),
        ("{{ [a] }}", r#"{"a": "\u200b"}"#),
        ("{{ strftime_now('%H') }}", "{}"),
        ("{{ a }}", r#"{"a": "x\u001f"}"#),
    ] {
        assert_eq!(render(source, variables), Err(NoTokens::Unknown), "{source} {variables}");
    }
}

#[test]
fn tests_of_values_are_those_of_python() {
    let source = "{{ 'x' is sequence }} {{ {} is iterable }} {{ none is iterable }} {{ 1 is sequence }} {{ true is number }}";
    assert_eq!(render(source, "{}").unwrap(), "True True False False True");
}

#[test]
fn a_template_that_raises_or_never_ends_is_an_outcome() {
    assert_eq!(render("{{ raise_exception('no') }}", "{}"), Err(NoTokens::Refused));
    assert_eq!(render("{{ a.b.c }}", "{}"), Err(NoTokens::Refused));
    let forever =
        "{% for a in range(9999) %}{% for b in range(9999) %}{% set c = a * b %}{% endfor %}{% endfor %}";
    assert_eq!(render(forever, "{}"), Err(NoTokens::TooLarge));
    let large = "{% for a in range(9999) %}{{ x }}{% endfor %}";
    assert_eq!(render(large, &format!(r#"{{"x": "{}"}}"#, "y".repeat(10_000))), Err(NoTokens::TooLarge));
    assert!(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}").is_err());
}

#[test]
fn marks_of_what_the_assistant_said_are_nothing() {
    let source = "a{% generation %}b{%- endgeneration -%} c {%- generation %}{% endgeneration -%}\n{% raw %}{% x %}{% endraw %}";
    assert_eq!(render(source, "{}").unwrap(), "abc{% x %}");
}

#[test]
fn content_is_a_list_where_a_loop_goes_over_it() {
    let content = |source: &str| compile(source).shape(false).content;
    for source in [
        "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for c in m['content'] | list %}{% endfor %}{% endfor %}",
        "{% set ms = messages[1:] %}{% for m in ms %}{% if false %}{% for c in m.content %}{% endfor %}{% endif %}{% endfor %}",
        "{% for m in messages %}{% set content = m.content %}{% for c in content %}{% endfor %}{% endfor %}",
        "{% macro p(x) %}{% for c in x %}{% endfor %}{% endmacro %}{% for m in messages %}{{ p(m.content) }}{% endfor %}",
        "{% macro p(x) %}{% for c in x %}{% endfor %}{% endmacro %}{% for m in messages %}{{ p(x=m['content']) }}{% endfor %}",
    ] {
        assert_eq!(content(source), Content::Parts, "{source}");
    }
    for source in [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls %}{% endfor %}{% endfor %}",
        "{% macro p(content) %}{% for c in content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ p(m) }}{% endfor %}",
        "{% set ns.x = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
    ] {
        assert_eq!(content(source), Content::Text, "{source}");
    }
}

#[test]
fn a_member_that_python_takes_for_a_method_is_refused() {
    let error = Templates::compile(&[("default".into(), "{{ schema.items.type }}".into())]).unwrap_err();
    assert!(error.contains("`.items`"), "{error}");
    assert_eq!(
        render("{% for k, v in a.items() %}{{ k }}{% endfor %}", r#"{"a": {"items": 1}}"#).unwrap(),
        "items"
    );
}

#[test]
fn the_template_with_tools_is_taken_with_tools() {
    let sources = [("default".into(), "plain".into()), ("tool_use".into(), "tools".into())];
    let templates = Templates::compile(&sources).unwrap().unwrap();
    let rendered = |tools| templates.render(Value::from(()), tools).unwrap();
    assert_eq!((rendered(false), rendered(true)), ("plain".into(), "tools".into()));
    assert!(Templates::compile(&[]).unwrap().is_none());
    let error = Templates::compile(&[("default".into(), "{% if %}".into())]).unwrap_err();
    assert!(error.starts_with("default: "), "{error}");
}
