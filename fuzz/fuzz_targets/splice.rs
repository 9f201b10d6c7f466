//! Bytes as the body of a request of which a member is set and another removed.
//!
//! Whatever is not an object of JSON is refused. Of an object all other members survive, and the ones that were set are
//! found again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sluicegate::api::splice;

fuzz_target!(|bytes: &[u8]| {
    let body = Bytes::copy_from_slice(bytes);
    let edited = splice::edit(&body, &[("model", "\"other\"")], &["kv_transfer_params"]);
    // serde refuses some numbers and depths that are passed on.
    let parsed = serde_json::from_slice::<Value>(bytes).ok();
    let Some(Value::Object(before)) = parsed else {
        return;
    };
    let edited = edited.expect("an object is refused");
    let after: Value = serde_json::from_slice(&edited).expect("what was spliced is no JSON");
    let after = after.as_object().expect("an object is none any more");
    assert_eq!(after.get("model"), Some(&Value::from("other")));
    assert!(!after.contains_key("kv_transfer_params"));
    assert_eq!(splice::get(&edited, "model"), Ok(Some("\"other\"")));
    for (key, value) in before.iter().filter(|(key, _)| !["model", "kv_transfer_params"].contains(&key.as_str())) {
        assert_eq!(after.get(key), Some(value), "{key} has changed");
    }
});
