use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::tokens::Tokenizer as Whole;
use crate::types::Api;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokens/fixtures").join(name)
}

fn load(name: &str) -> Vocabulary {
    let folder = Folder::open(&fixture(name)).unwrap();
    Vocabulary::load(&folder, &Settings::read(&folder).unwrap()).unwrap()
}

/// What texts are made of where tokenizing may go wrong: special tokens of every kind, whole and in part, beside
/// blanks and letters of many bytes.
fn pieces() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "<|im_start|>",
        "<|im_end|>",
        "</s>",
        "<s>",
        "<mask>",
        " <mask>",
        "  <mask>",
        "Sluice",
        " Sluice",
        "<think>",
        "<tool_call>",
        "[INST]",
        "[/INST]",
        "<|im_",
        "start|>",
        "<",
        "|>",
        "the ",
        "user",
        "\n",
        "\n\n",
        " ",
        "  ",
        "\t",
        "▁",
        "é",
        "e\u{301}",
        "日本",
        "🦀",
        "👩‍💻",
        "don't",
        "12345",
        "\u{0}",
        "\u{feff}",
    ]);
    prop_oneof![3 => known.prop_map(str::to_owned), 1 => any::<String>()]
}

fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(pieces(), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// However often and in whatever order texts come, cut and kept they have the ids of the whole.
    #[test]
    fn pieces_have_the_ids_of_the_whole(texts in prop::collection::vec(text(), 1..4), bytes in prop::sample::select(vec![0, 2_000, 1 << 20])) {
        for name in ["bytes", "pieces"] {
            let vocabulary = load_once(name);
            let cache = Cache::new(bytes);
            for text in texts.iter().chain(&texts) {
                for special in [false, true] {
                    let whole = vocabulary.encode(text, special).unwrap();
                    prop_assert_eq!(vocabulary.ids(text, special, &cache).unwrap(), whole, "{} {:?}", name, text);
                }
            }
        }
    }

    /// Any bytes in the place of a tokenizer are an error or a tokenizer, never a panic.
    #[test]
    fn a_damaged_file_is_an_error(at in any::<prop::sample::Index>(), with in any::<[u8; 3]>(), cut in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = std::fs::read(fixture("bytes/tokenizer.json")).unwrap();
        let at = at.index(bytes.len() - 3);
        if cut { bytes.truncate(at) } else { bytes[at..at + 3].copy_from_slice(&with) }
        std::fs::write(dir.path().join(FILE), bytes).unwrap();
        if let Ok(loaded) = Whole::load(dir.path(), 0) {
            let _ = loaded.tokens(Api::Completions, br#"{"prompt": "the user said 1 \u00e9"}"#);
        }
    }
}

fn load_once(name: &str) -> &'static Vocabulary {
    static ALL: [std::sync::OnceLock<Vocabulary>; 2] = [const { std::sync::OnceLock::new() }; 2];
    let of = usize::from(name == "pieces");
    ALL[of].get_or_init(|| load(name))
}

#[test]
fn texts_are_cut_before_special_tokens_and_not_where_these_take_in_blanks() {
    let cut = |text| load_once("bytes").pieces(text).collect::<Vec<_>>();
    assert_eq!(cut("<|im_start|>user\nhi<|im_end|>\n"), ["<|im_start|>user\nhi", "<|im_end|>\n"]);
    assert_eq!(cut("a </s> b <mask> c Sluice"), ["a ", "</s> b <mask> c Sluice"]);
    assert_eq!(cut("<|im_start|><|im_start|>"), ["<|im_start|>", "<|im_start|>"]);
    assert_eq!(cut("<|im_start"), ["<|im_start"]);
    assert!(cut("").is_empty());
}

#[test]
fn what_is_put_around_a_text_is_what_the_files_say() {
    for (name, bos) in [("bytes", "<|begin_of_text|>"), ("pieces", "<s>")] {
        let vocabulary = load_once(name);
        let ids = |special| vocabulary.ids("the user", special, &Cache::new(0)).unwrap();
        let mut whole = vec![vocabulary.inner.token_to_id(bos).unwrap()];
        whole.extend(ids(false));
        assert_eq!(ids(true), whole, "{name}");
        assert_eq!(vocabulary.ids("", true, &Cache::new(0)).unwrap().len(), 1);
    }
}
