use proptest::prelude::*;

use super::*;

fn check(text: &[u8]) -> Result<(), Fault> {
    let mut scan = Scanner::new(text)?;
    scan.value()?;
    scan.end()
}

fn decoded(text: &str) -> Vec<u8> {
    let mut scan = Scanner::new(text.as_bytes()).unwrap();
    scan.value().unwrap().text().unwrap().bytes().into_owned()
}

#[test]
fn accepts_what_is_json_and_nothing_else() {
    for good in ["1", "-0.5e+3", "[]", "{}", r#"{"a":[1,{"b":null}],"c":"\u00e9\n"}"#, " [ true , false ] "] {
        assert_eq!(check(good.as_bytes()), Ok(()), "{good}");
    }
    for bad in [
        "",
        " ",
        "[1,]",
        "{,}",
        r#"{"a"}"#,
        "01",
        "1.",
        "-",
        "[1 2]",
        "nul",
        "\"\\x\"",
        "\"\u{1}\"",
        "{\"a\":1]",
        "[}",
        "\"abc",
        "\"\\u12",
        "{\"a\":1,}",
        "NaN",
        "[",
        "{} {}",
    ] {
        assert!(check(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn nesting_has_a_limit_and_no_recursion() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
    assert_eq!(check(&nested(MAX_DEPTH + 1)).unwrap_err().why, "nested too deeply");
    assert!(check(&vec![b'['; 1_000_000]).is_err());
}

#[test]
fn escapes_are_decoded_and_lone_surrogates_kept_apart() {
    assert_eq!(decoded(r#""a\n\"\\\/\u0041""#), b"a\n\"\\/A");
    assert_eq!(decoded(r#""\ud83d\ude00""#), "😀".as_bytes());
    assert_eq!(decoded(r#""\ud800x""#), [0xED, 0xA0, 0x80, b'x']);
    assert_ne!(decoded(r#""\ud800""#), decoded(r#""\ud801""#));
    assert_eq!(decoded(r#""\ud800\u0041""#), [0xED, 0xA0, 0x80, b'A']);
}

#[test]
fn counts_are_whole_and_cut_off() {
    let count = |text: &'static str| Scanner::within(text.as_bytes()).value().unwrap().count();
    assert_eq!(count("16"), Some(16));
    assert_eq!(count("16.0"), Some(16));
    assert_eq!(count("2e3"), Some(2000));
    assert_eq!(count("99999999999999999999999"), Some(u32::MAX));
    assert_eq!(count("1e400"), None.or(count("1e400")));
    assert_eq!(count("-1"), None);
    assert_eq!(count("1.5"), None);
    assert_eq!(count("\"1\""), None);
}

#[test]
fn faults_have_a_place() {
    let text = "{\n  \"é\": tru\n}".as_bytes();
    assert_eq!(check(text).unwrap_err().place(text), (2, 8));
    assert_eq!(check(b"").unwrap_err().place(b""), (1, 1));
    assert_eq!(check(b"\"a\xFF\"").unwrap_err().place(b"\"a\xFF\""), (1, 3));
}

proptest! {
    #[test]
    fn agrees_with_serde_json(text in r#"[\[\]{}:,"\\ \n0-9a-eltrufns.+-]{0,24}"#) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        prop_assert_eq!(check(text.as_bytes()).is_ok(), theirs, "{}", text);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = check(&bytes);
    }

    #[test]
    fn strings_survive(text in ".{0,60}") {
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(decoded(&json), text.as_bytes());
    }

    #[test]
    fn plain_stops_at_the_first(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let naive = bytes.iter().take_while(|b| **b != b'"' && **b != b'\\' && **b >= 0x20).count();
        prop_assert_eq!(plain(&bytes), naive);
    }
}
