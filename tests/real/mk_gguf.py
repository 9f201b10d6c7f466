"""The model that mk_tiny.py made, as GGUF for llama.cpp: same weights, same tokenizer, same greedy text.

    python mk_gguf.py TINY_DIR OUT.gguf
"""

import json
import os
import struct
import sys

import gguf
import numpy as np


class Safetensors:
    """Reads half-precision tensors out of a .safetensors file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.raw = file.read()
        length = struct.unpack("<Q", self.raw[:8])[0]
        self.header = json.loads(self.raw[8:8 + length])
        self.base = 8 + length

    def get(self, name):
        entry = self.header[name]
        assert entry["dtype"] == "F16", entry
        begin, end = entry["data_offsets"]
        data = np.frombuffer(self.raw[self.base + begin:self.base + end], dtype=np.float16)
        return data.astype(np.float32).reshape(entry["shape"])


def half(tensor):
    return np.ascontiguousarray(tensor).astype(np.float16)


def rotary(tensor, heads):
    """llama.cpp pairs the rotary dimensions in another order."""
    split = tensor.reshape(heads, 2, tensor.shape[0] // heads // 2, *tensor.shape[1:])
    return split.swapaxes(1, 2).reshape(tensor.shape)


def add_tokenizer(writer, source):
    with open(f"{source}/tokenizer.json") as file:
        tokenizer = json.load(file)
    vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    tokens = [token for token, _ in vocabulary]
    special = {added["content"] for added in tokenizer["added_tokens"]}
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    with open(f"{source}/chat_template.jinja") as file:
        writer.add_chat_template(file.read())


def add_tensors(writer, source, config):
    weights = Safetensors(f"{source}/model.safetensors")
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    writer.add_tensor("token_embd.weight", half(weights.get("model.embed_tokens.weight")))
    writer.add_tensor("output_norm.weight", weights.get("model.norm.weight"))
    writer.add_tensor("output.weight", half(weights.get("lm_head.weight")))
    for layer in range(config["num_hidden_layers"]):
        at, to = f"model.layers.{layer}.", f"blk.{layer}."
        writer.add_tensor(to + "attn_norm.weight", weights.get(at + "input_layernorm.weight"))
        writer.add_tensor(to + "ffn_norm.weight", weights.get(at + "post_attention_layernorm.weight"))
        writer.add_tensor(to + "attn_q.weight", half(rotary(weights.get(at + "self_attn.q_proj.weight"), heads)))
        writer.add_tensor(to + "attn_k.weight", half(rotary(weights.get(at + "self_attn.k_proj.weight"), kv_heads)))
        writer.add_tensor(to + "attn_v.weight", half(weights.get(at + "self_attn.v_proj.weight")))
        writer.add_tensor(to + "attn_output.weight", half(weights.get(at + "self_attn.o_proj.weight")))
        for part in ("gate", "up", "down"):
            writer.add_tensor(f"{to}ffn_{part}.weight", half(weights.get(f"{at}mlp.{part}_proj.weight")))


def main(source, out):
    with open(f"{source}/config.json") as file:
        config = json.load(file)
    writer = gguf.GGUFWriter(out + ".part", "llama")
    writer.add_name("tiny")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_tokenizer(writer, source)
    add_tensors(writer, source, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(out + ".part", out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
