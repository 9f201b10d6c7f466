use proptest::prelude::*;

use super::*;

fn run(api: Api, streaming: bool, pieces: &[&[u8]]) -> (Option<Usage>, u32, bool, bool, bool) {
    let mut scan = UsageScan::new(api, streaming);
    for piece in pieces {
        scan.feed(piece);
    }
    let state = (scan.chunks(), scan.first_token_seen(), scan.ended(), scan.between_events());
    (scan.finish(), state.0, state.1, state.2, state.3)
}

fn usage(prompt_tokens: u32, cached_tokens: Option<u32>, output_tokens: u32) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens, output_tokens })
}

const VLLM: &str = concat!(
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a \\\"usage\\\":{\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"b\"}}]}\r\n\r\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"total_tokens\":14,\"completion_tokens\":2,",
    "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n",
    "data: [DONE]\n\n",
);

const LLAMACPP: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],",
    "\"timings\":{\"cache_n\":30,\"prompt_n\":5,\"predicted_n\":4,\"predicted_ms\":1.5}}\n\n",
    "data: [DONE]\n\n",
);

const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
    "event: response.completed\ndata: {\"response\":{\"id\":\"r\",\"usage\":{\"input_tokens\":7,\"output_tokens\":3,",
    "\"input_tokens_details\":{\"cached_tokens\":4}}},\"type\":\"response.completed\"}\n\n",
);

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,",
    "\"cache_read_input_tokens\":20,\"cache_creation_input_tokens\":0,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"a\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

#[test]
fn streams_of_every_api() {
    let whole = |api, text: &str| run(api, true, &[text.as_bytes()]);
    assert_eq!(whole(Api::Chat, VLLM), (usage(12, Some(8), 2), 2, true, true, true));
    assert_eq!(whole(Api::Chat, LLAMACPP), (usage(35, Some(30), 4), 1, true, true, true));
    assert_eq!(whole(Api::Responses, RESPONSES), (usage(7, Some(4), 3), 1, true, true, true));
    assert_eq!(whole(Api::Messages, MESSAGES), (usage(25, Some(20), 9), 1, true, true, true));
    let sglang = "data: {\"text\":\"ab\",\"meta_info\":{\"prompt_tokens\":6,\"completion_tokens\":1,\"cached_tokens\":3}}\n\n";
    assert_eq!(whole(Api::Generate, sglang), (usage(6, Some(3), 1), 1, true, false, true));
    let text = "data: {\"choices\":[{\"text\":\"\"}]}\n\ndata: {\"choices\":[{\"text\":\"x\"}]}\n";
    assert_eq!(whole(Api::Completions, text), (None, 1, true, false, false));
}

#[test]
fn answers_that_are_no_stream() {
    let whole = |api, text: &str| run(api, false, &[text.as_bytes()]).0;
    let chat = r#"{"choices":[{"message":{"content":"\"usage\":{\"prompt_tokens\":1}"}}],
        "usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":null},"timings":{"cache_n":9}}"#;
    assert_eq!(whole(Api::Chat, chat), usage(10, Some(9), 4));
    assert_eq!(whole(Api::Responses, r#"{"usage":{"input_tokens":3,"output_tokens":1}}"#), usage(3, None, 1));
    assert_eq!(whole(Api::Chat, r#"{"error":{"message":"no"}}"#), None);
    assert_eq!(whole(Api::Chat, "<html>"), None);
    let long = format!(
        r#"{{"choices":["{}"],"usage":{{"prompt_tokens":10,"completion_tokens":4}},"kv_transfer_params":null}}"#,
        "x".repeat(300_000)
    );
    assert_eq!(whole(Api::Chat, &long), usage(10, None, 4));
    let early =
        format!(r#"{{"usage":{{"prompt_tokens":11,"completion_tokens":4}},"x":"{}"}}"#, "x".repeat(90_000));
    assert_eq!(whole(Api::Chat, &early), usage(11, None, 4));
}

#[test]
fn a_schema_that_speaks_of_usage_tells_none() {
    let body = format!(
        r#"{{"pad":"{}","usage":{{"input_tokens":3,"output_tokens":1}},"tools":[{{"properties":{{"usage":{{"type":"object"}}}}}}]}}"#,
        "x".repeat(100_000)
    );
    assert_eq!(run(Api::Responses, false, &[body.as_bytes()]).0, usage(3, None, 1));
}

#[test]
fn long_lines_are_read_at_both_ends_and_not_kept() {
    let line = format!(
        "event: response.completed\ndata: {{\"response\":{{\"output\":\"{}\",\"usage\":{{\"input_tokens\":7,\"output_tokens\":3}}}},\"type\":\"response.completed\"}}\n\n",
        "x".repeat(1 << 20)
    );
    let mut scan = UsageScan::new(Api::Responses, true);
    for piece in line.as_bytes().chunks(1000) {
        scan.feed(piece);
        if let Body::Stream(lines) = &scan.body {
            assert!(format!("{lines:?}").len() < 1_000_000);
        }
    }
    assert!(scan.ended());
    assert_eq!((scan.chunks(), scan.finish()), (0, usage(7, None, 3)));
}

/// Cuts `text` at places given as fractions of it.
fn cut<'a>(text: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<_> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut start = 0;
    for place in places.into_iter().chain([text.len()]) {
        pieces.push(&text[start..place]);
        start = place;
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn where_pieces_end_does_not_matter(
        streams in proptest::collection::vec(0_usize..7, 1..5),
        pad in prop::sample::select(vec![10_usize, 57_000, 65_400, 65_530, 66_000, 73_000, 90_000]),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let long = format!("data: {{\"choices\":[\"{}\"],\"usage\":{{\"prompt_tokens\":3}}}}\n\n", "y".repeat(pad));
        let all = [VLLM, LLAMACPP, RESPONSES, MESSAGES, &long, ": ping\n\ndata\n\ndata:\n{\"usage\":", "event: x\n"];
        let text: String = streams.iter().map(|number| all[*number]).collect();
        let pieces = cut(text.as_bytes(), &places);
        for api in [Api::Chat, Api::Messages] {
            prop_assert_eq!(run(api, true, &[text.as_bytes()]), run(api, true, &pieces));
            prop_assert_eq!(run(api, false, &[text.as_bytes()]), run(api, false, &pieces));
            let bytes: Vec<_> = text.as_bytes().chunks(7).collect();
            prop_assert_eq!(run(api, true, &[text.as_bytes()]), run(api, true, &bytes));
        }
        let body = format!("{{\"p\":\"{}\",\"usage\":{{\"prompt_tokens\":3,\"completion_tokens\":5}}}}", "y".repeat(pad));
        let pieces = cut(body.as_bytes(), &places);
        prop_assert_eq!(run(Api::Chat, false, &[body.as_bytes()]), run(Api::Chat, false, &pieces));
        prop_assert_eq!(run(Api::Chat, false, &pieces).0, usage(3, None, 5));
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), streaming in any::<bool>()) {
        let _ = run(Api::Chat, streaming, &[b"data: {\"choices\":[", &bytes, b"\n\n"]);
    }
}
