//! JSON as templates see it: minijinja's values, whose objects keep the order of their keys as Python's do.

use minijinja::value::{Value, ValueKind};

/// The member of that name; none where there is none, or `null`.
pub(super) fn member(object: &Value, name: &str) -> Option<Value> {
    if object.kind() != ValueKind::Map {
        return None;
    }
    object.get_attr(name).ok().filter(|value| !value.is_undefined() && !value.is_none())
}

/// The text of a member, where it is one.
pub(super) fn text(object: &Value, name: &str) -> Option<String> {
    member(object, name).and_then(|value| value.as_str().map(str::to_owned))
}

/// Whether a member is `true`; without one, what holds `otherwise`. None for what is no truth value.
pub(super) fn flag(object: &Value, name: &str, otherwise: bool) -> Option<bool> {
    match member(object, name) {
        None => Some(otherwise),
        Some(value) if value.kind() == ValueKind::Bool => Some(value.is_true()),
        Some(_) => None,
    }
}

/// The items of a list; none of anything else.
pub(super) fn items(list: &Value) -> Option<impl Iterator<Item = Value> + use<>> {
    (list.kind() == ValueKind::Seq).then(|| list.try_iter().ok()).flatten()
}

/// Keys and values of an object; none of anything else.
pub(super) fn entries(object: &Value) -> Vec<(Value, Value)> {
    if object.kind() != ValueKind::Map {
        return Vec::new();
    }
    let keys = object.try_iter().into_iter().flatten();
    keys.map(|key| (key.clone(), object.get_item(&key).unwrap_or_default())).collect()
}

/// An object of these members, in this order.
pub(super) fn object<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    Value::from_pairs(members)
}

/// Whether this is an object.
pub(super) fn is_object(value: &Value) -> bool {
    value.kind() == ValueKind::Map
}
