"""Two small tokenizers for the tests of the model's own tokens, in the shapes that are in use.

    python mk_tokenizers.py FIXTURES_DIR

`bytes`: byte-level BPE behind a splitting pattern, as Llama 3 and Qwen have it, with a begin-of-text token put in
front of what is no conversation. `pieces`: BPE with blanks written as a letter and bytes for what is not in the
vocabulary, as Llama 2 and Mistral have it. Both with special tokens of every kind: blanks on the left belong to
one, one is searched for in normalised text, two are not special at all. Their files are kept beside the tests
(a change of them changes all ids that were recorded).
"""

import json
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SPECIAL = [
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
]
PLAIN = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def text():
    """Enough words to learn some merges from."""
    words = (
        "the a of and to in is that it was for on are as with his they at be this have from or one had by word but "
        "what some we can out other were all there when up use your how said an each she which do their time if will "
        "way about many then them write would like so these her long make thing see him two has look more day could "
        "system user assistant content role function name arguments type object properties string number weather city"
    ).split()
    for start in range(len(words)):
        yield " ".join(words[start:] + words[:start]) + ".\n{\"" + words[start] + "\": 12, \"x\": [1, 2]}\n"


def byte_level(out):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(text(), trainers.BpeTrainer(vocab_size=640, special_tokens=SPECIAL, initial_alphabet=alphabet))
    others(tokenizer)
    bos = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing("<|begin_of_text|> $A", "<|begin_of_text|> $A $B", [bos]),
    ])
    save(tokenizer, out, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "pad_token": "</s>"})


def pieces(out):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", *SPECIAL, *[f"<0x{byte:02X}>" for byte in range(256)]]
    tokenizer.train_from_iterator(text(), trainers.BpeTrainer(vocab_size=700, special_tokens=special))
    bytes_are_no_tokens_of_text(tokenizer, out)


def bytes_are_no_tokens_of_text(tokenizer, out):
    """The bytes are in the vocabulary, but text is not searched for them."""
    saved = json.loads(tokenizer.to_str())
    saved["added_tokens"] = [token for token in saved["added_tokens"] if not token["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(saved))
    others(tokenizer)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bos = {"__type": "AddedToken", "content": "<s>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", tokenizer.token_to_id("<s>"))])
    # What is put around a text the other file says; transformers does not look here.
    save(tokenizer, out, {"bos_token": bos, "eos_token": "</s>", "add_bos_token": False, "add_eos_token": True})


def others(tokenizer):
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in PLAIN])
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("Sluice", normalized=True)])


def save(tokenizer, out, settings):
    tokenizer.save(f"{out}/tokenizer.json", pretty=False)
    with open(f"{out}/tokenizer_config.json", "w") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 32768, **settings}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    byte_level(f"{sys.argv[1]}/bytes")
    pieces(f"{sys.argv[1]}/pieces")
