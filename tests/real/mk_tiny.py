"""A tiny Llama with random weights and its own byte-level BPE tokenizer, in the Hugging Face layout.

    python mk_tiny.py OUT_DIR

Nothing is downloaded: the tokenizer is trained on text that is on every machine (the standard library's
sources), the weights come from a seeded generator. 3.3 M parameters, 4,096 tokens, a chat template.
"""

import glob
import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 4096
HIDDEN, FEED_FORWARD, LAYERS, HEADS, KV_HEADS, CONTEXT = 256, 512, 2, 4, 2, 32768
HEAD = HIDDEN // HEADS
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def text():
    library = os.path.dirname(os.__file__)
    for path in sorted(glob.glob(f"{library}/*.py"))[:80]:
        with open(path, errors="ignore") as file:
            yield file.read()


def tokenizer(out):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet)
    bpe.train_from_iterator(text(), trainer)
    bpe.save(f"{out}/tokenizer.json")
    return bpe.get_vocab_size()


def weights(vocabulary):
    random = np.random.default_rng(0)

    def matrix(*shape):
        return (random.standard_normal(shape) * 0.02).astype(np.float16)

    ones = np.ones(HIDDEN, np.float16)
    tensors = {
        "model.embed_tokens.weight": matrix(vocabulary, HIDDEN),
        "model.norm.weight": ones.copy(),
        "lm_head.weight": matrix(vocabulary, HIDDEN),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        tensors |= {
            at + "input_layernorm.weight": ones.copy(),
            at + "post_attention_layernorm.weight": ones.copy(),
            at + "self_attn.q_proj.weight": matrix(HIDDEN, HIDDEN),
            at + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN),
            at + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD, HIDDEN),
            at + "self_attn.o_proj.weight": matrix(HIDDEN, HIDDEN),
            at + "mlp.gate_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            at + "mlp.up_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            at + "mlp.down_proj.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    return tensors


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1)


def main(out):
    os.makedirs(out, exist_ok=True)
    vocabulary = tokenizer(out)
    with open(f"{out}/chat_template.jinja", "w") as file:
        file.write(CHAT_TEMPLATE)
    write_json(f"{out}/tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
        "pad_token": "</s>", "model_max_length": CONTEXT, "chat_template": CHAT_TEMPLATE,
    })
    write_json(f"{out}/config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": vocabulary,
        "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "hidden_act": "silu", "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1,
        "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "torch_dtype": "float16",
    })
    write_json(f"{out}/generation_config.json", {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1})
    save_file(weights(vocabulary), f"{out}/model.safetensors", {"format": "pt"})


if __name__ == "__main__":
    main(sys.argv[1])
