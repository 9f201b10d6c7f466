use proptest::prelude::*;

use super::*;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn new_members_stand_in_front_and_old_ones_stay_in_place() {
    let body = bytes(r#" { "a" : 1 , "b":2}"#);
    assert_eq!(text(&set(&body, &[("c", "[3]")]).unwrap()), r#" {"c":[3], "a" : 1 , "b":2}"#);
    assert_eq!(text(&set(&body, &[("a", "null")]).unwrap()), r#" { "a" : null , "b":2}"#);
    assert_eq!(text(&set(&bytes("{ }"), &[("x", "1"), ("y", "2")]).unwrap()), r#"{"x":1,"y":2 }"#);
}

#[test]
fn duplicates_are_one_after_a_set_and_none_after_a_remove() {
    let body = bytes(r#"{"a":1, "b":2, "\u0061":3, "c":4}"#);
    assert_eq!(text(&set(&body, &[("a", "0")]).unwrap()), r#"{"a":0, "b":2, "c":4}"#);
    assert_eq!(text(&remove(&body, &["a"]).unwrap()), r#"{"b":2, "c":4}"#);
    assert_eq!(text(&remove(&body, &["a", "b", "c"]).unwrap()), "{}");
    assert_eq!(text(&remove(&body, &["c"]).unwrap()), r#"{"a":1, "b":2, "\u0061":3}"#);
    assert_eq!(text(&edit(&body, &[("z", "9")], &["a", "b", "c"]).unwrap()), r#"{"z":9}"#);
}

#[test]
fn get_finds_the_last() {
    let body = br#"{"a":1,"b":{"a":5},"a": [2, {}] }"#;
    assert_eq!(get(body, "a").unwrap(), Some("[2, {}]"));
    assert_eq!(get(body, "b").unwrap(), Some(r#"{"a":5}"#));
    assert_eq!(get(body, "c").unwrap(), None);
}

#[test]
fn what_is_no_object_is_refused() {
    assert_eq!(set(&bytes("[1]"), &[]).unwrap_err(), SpliceError::NotAnObject);
    assert!(matches!(remove(&bytes(r#"{"a":}"#), &["a"]), Err(SpliceError::NotJson { at: 5, .. })));
    assert_eq!(set(&bytes("{}"), &[("a", "{")]).unwrap_err(), SpliceError::BadValue);
    assert!(get(b"{} x", "a").is_err());
}

#[test]
fn nothing_to_remove_copies_nothing() {
    let body = bytes(r#"{"a":1}"#);
    assert_eq!(remove(&body, &["b"]).unwrap().as_ptr(), body.as_ptr());
}

/// A member as it is written: space before the key, key, space, value, space after.
fn member() -> impl Strategy<Value = (String, String)> {
    let key = prop::sample::select(vec!["a", "b", "c", "d", "e", "\\u0061", "é", "kv_transfer_params"]);
    let value = prop::sample::select(vec![
        "1",
        "-0.50E+2",
        "null",
        "true",
        r#""x\"},{""#,
        "[]",
        "[ 1 , 2 ]",
        r#"{"a":1,"a":2}"#,
        "123456789012345678901234567890",
    ]);
    let space = || prop::sample::select(vec!["", " ", "\n\t", "  "]);
    (space(), key, space(), space(), value, space()).prop_map(|(s1, key, s2, s3, value, s4)| {
        (key.replace("\\u0061", "a"), format!("{s1}\"{key}\"{s2}:{s3}{value}{s4}"))
    })
}

fn body_of(members: &[(String, String)]) -> String {
    let written: Vec<_> = members.iter().map(|(_, written)| written.as_str()).collect();
    format!("{{{}}}", written.join(","))
}

/// Every top-level member as bytes between its opening quote and its value's end.
fn pieces(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out = Vec::new();
    walk(body, |key, at| out.push((key.to_vec(), body[at.key..at.end].to_vec()))).unwrap();
    out
}

proptest! {
    #[test]
    fn other_members_survive_byte_for_byte(
        members in proptest::collection::vec(member(), 0..8),
        key in prop::sample::select(vec!["a", "b", "zz"]),
        gone in prop::sample::select(vec!["c", "d", "yy"]),
    ) {
        let body = bytes(&body_of(&members));
        let edited = edit(&body, &[(key, "77")], &[gone]).unwrap();
        let kept = |pieces: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<_> {
            pieces.into_iter().filter(|(name, _)| name != key.as_bytes() && name != gone.as_bytes()).collect()
        };
        prop_assert_eq!(kept(pieces(&body)), kept(pieces(&edited)));
        prop_assert_eq!(get(&edited, key).unwrap(), Some("77"));
        prop_assert_eq!(get(&edited, gone).unwrap(), None);
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&edited).is_ok());
        let named = pieces(&edited).iter().filter(|(name, _)| name == key.as_bytes()).count();
        prop_assert_eq!(named, 1);
    }

    #[test]
    fn setting_what_is_there_changes_nothing(members in proptest::collection::vec(member(), 1..8)) {
        let body = bytes(&body_of(&members));
        let (key, _) = &members[0];
        if members.iter().filter(|(name, _)| name == key).count() == 1 {
            let value = get(&body, key).unwrap().unwrap().to_owned();
            prop_assert_eq!(set(&body, &[(key, &value)]).unwrap(), body);
        }
    }

    #[test]
    fn removing_undoes_an_insertion(members in proptest::collection::vec(member(), 1..8)) {
        let body = bytes(&body_of(&members));
        let longer = set(&body, &[("zz", r#"{"q":[1]}"#)]).unwrap();
        // The space between the brace and the first key is the one thing that an inserted member takes.
        let shorter = remove(&longer, &["zz"]).unwrap();
        prop_assert_eq!(pieces(&shorter), pieces(&body));
    }

    #[test]
    fn never_panics(noise in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = edit(&Bytes::from(noise.clone()), &[("a", "1")], &["b"]);
        let _ = get(&noise, "a");
    }
}

#[test]
fn what_steers_engines_is_stripped_wherever_they_read_it() {
    let body = Bytes::from_static(
        br#"{"a": 1,"kv_transfer_params":{}, "vllm_xargs":{"x":1, "kv\u005ftransfer_params":{}},"sampling_params": {"n":1,"extra_args":{"kv_transfer_params":1,"y":2}}}"#,
    );
    let stripped = strip(&body).unwrap();
    assert_eq!(
        std::str::from_utf8(&stripped).unwrap(),
        r#"{"a": 1, "vllm_xargs":{"x":1},"sampling_params": {"n":1,"extra_args":{"y":2}}}"#
    );
    assert_eq!(strip(&stripped).unwrap(), stripped);
}
