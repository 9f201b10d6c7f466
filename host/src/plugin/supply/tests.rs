//! What is loaded, and what is refused with which words.

use super::*;

struct World {
    config: SupplyConfig,
    key: SecretKey,
}

impl World {
    fn new() -> Self {
        let key = SecretKey::generate("release").unwrap();
        let config = SupplyConfig { keys: vec![key.public().unwrap()], ..SupplyConfig::default() };
        Self { config, key }
    }

    fn signed(&self, name: &str, wasm: &[u8], settings: Option<&[u8]>, version: u64) -> Vec<u8> {
        let files = Files { name, wasm, settings, signature: None };
        self.key.sign(&files, version).unwrap().to_string().into_bytes()
    }

    fn check(&self, files: Files<'_>, newest: Option<u64>) -> Result<Checked, SupplyError> {
        check(&self.config, &files, newest)
    }
}

fn files<'a>(wasm: &'a [u8], settings: Option<&'a [u8]>, signature: Option<&'a [u8]>) -> Files<'a> {
    Files { name: "mine", wasm, settings, signature }
}

#[test]
fn without_keys_and_list_everything_may_be_loaded() {
    let checked = check(&SupplyConfig::default(), &files(b"x", None, Some(b"junk")), Some(7)).unwrap();
    assert_eq!(checked, Checked { signed: None });
}

#[test]
fn only_listed_digests_are_loaded() {
    let config = SupplyConfig { allow: vec![digest(b"good")], ..SupplyConfig::default() };
    check(&config, &files(b"good", None, None), None).unwrap();
    let error = check(&config, &files(b"bad", None, None), None).unwrap_err();
    assert_eq!(error.reason(), "not_allowed");
    assert!(error.to_string().contains(&*digest(b"bad")), "{error}");
}

#[test]
fn a_signature_holds_for_its_name_version_bytes_and_settings_alone() {
    let world = World::new();
    let with = world.signed("mine", b"wasm", Some(b"weight = 1"), 7);
    let without = world.signed("mine", b"wasm", None, 7);
    let good = world.check(files(b"wasm", Some(b"weight = 1"), Some(&with)), None).unwrap();
    assert_eq!(good.signed, Some(7));
    world.check(files(b"wasm", None, Some(&without)), None).unwrap();

    let text = String::from_utf8(with.clone()).unwrap();
    let relabelled = text.replace("version 7", "version 8").into_bytes();
    for (what, wrong) in [
        ("other bytes", files(b"wasn", Some(b"weight = 1"), Some(&with))),
        ("other settings", files(b"wasm", Some(b"weight = 2"), Some(&with))),
        ("settings gone", files(b"wasm", None, Some(&with))),
        ("settings added", files(b"wasm", Some(b"weight = 1"), Some(&without))),
        ("empty settings added", files(b"wasm", Some(b""), Some(&without))),
        ("another name", Files { name: "other", ..files(b"wasm", None, Some(&without)) }),
        ("another version", files(b"wasm", Some(b"weight = 1"), Some(&relabelled))),
    ] {
        let error = world.check(wrong, None).unwrap_err();
        assert!(matches!(error, SupplyError::Wrong { .. }), "{what}: {error}");
        assert_eq!(error.reason(), "bad_signature");
    }
}

#[test]
fn no_signature_or_one_of_a_stranger_is_refused() {
    let world = World::new();
    assert_eq!(world.check(files(b"wasm", None, None), None).unwrap_err().reason(), "unsigned");
    assert_eq!(world.check(files(b"wasm", None, Some(b"junk")), None).unwrap_err().reason(), "bad_signature");

    let stranger = SecretKey::generate("stranger").unwrap();
    let signature = stranger.sign(&files(b"wasm", None, None), 1).unwrap();
    let text = signature.to_string();
    let error = world.check(files(b"wasm", None, Some(text.as_bytes())), None).unwrap_err();
    assert_eq!(error.reason(), "unknown_key");
    assert!(error.to_string().contains("`stranger`") && error.to_string().contains("`release`"), "{error}");

    // The stranger's signature under the name of the key that is trusted.
    let forged = Signature { key: "release".into(), ..signature }.to_string();
    let error = world.check(files(b"wasm", None, Some(forged.as_bytes())), None).unwrap_err();
    assert!(matches!(error, SupplyError::Wrong { .. }), "{error}");
}

#[test]
fn versions_do_not_go_back_unless_that_is_allowed() {
    let mut world = World::new();
    let seven = world.signed("mine", b"wasm", None, 7);
    let seven = files(b"wasm", None, Some(&seven));
    world.check(seven, Some(6)).unwrap();
    world.check(seven, Some(7)).unwrap();
    let error = world.check(seven, Some(8)).unwrap_err();
    assert_eq!(error.reason(), "older_version");
    assert!(error.to_string().contains("version 7, older than version 8"), "{error}");
    world.config.allow_older = true;
    world.check(seven, Some(8)).unwrap();
}

#[test]
fn both_rules_hold_where_both_are_set() {
    let mut world = World::new();
    world.config.allow = vec![digest(b"wasm")];
    let other = world.signed("mine", b"other", None, 1);
    assert_eq!(world.check(files(b"other", None, Some(&other)), None).unwrap_err().reason(), "not_allowed");
    assert_eq!(world.check(files(b"wasm", None, None), None).unwrap_err().reason(), "unsigned");
}

#[test]
fn what_is_too_long_is_not_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = folder.path().join("mine.wasm");
    std::fs::write(&wasm, [0; 100]).unwrap();
    let config = |max_bytes| SupplyConfig { max_bytes, ..SupplyConfig::default() };
    let read = OnDisk::read(&wasm, &config(100)).unwrap();
    assert_eq!((read.wasm.len(), read.settings, read.signature), (100, None, None));
    let error = OnDisk::read(&wasm, &config(99)).unwrap_err();
    assert_eq!(error.reason(), "too_large");
    std::fs::write(folder.path().join("mine.wasm.sig"), [b' '; 5_000]).unwrap();
    let error = OnDisk::read(&wasm, &config(100)).unwrap_err();
    assert!(error.to_string().contains(".wasm.sig"), "{error}");
}

#[test]
fn nobody_waits_for_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = folder.path().join("mine.wasm");
    std::fs::write(&wasm, [0; 100]).unwrap();
    let pipe = folder.path().join("mine.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = OnDisk::read(&wasm, &SupplyConfig::default()).unwrap_err();
    assert!(error.to_string().contains("regular file"), "{error}");
}
