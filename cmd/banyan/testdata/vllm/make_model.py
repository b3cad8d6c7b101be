"""Makes a tiny chat model with random weights and one LoRA adapter, offline.

    python make_model.py --text FOLDER OUT

writes OUT/model and OUT/lora, 11 MB, in some 20 s. The tokenizer is a byte-level
BPE trained on the Markdown and Go files below FOLDER: a real one, that merges
across words and line ends, so that a rendered prefix of a prompt is not always a
prefix of its tokens. What the model says is noise, and always the same noise.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 8192
CONTEXT = 8192  # tokens
LAYERS = 4
HEADS, KV_HEADS, HEAD = 4, 2, 64
HIDDEN = HEADS * HEAD
RANK = 8  # of the adapter

# ChatML. Tools come first, as in the templates of real models.
TEMPLATE = """\
{%- if tools %}<|im_start|>system
You may call:
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}
{%- elif m.content %}{% for part in m.content %}{{ part.text }}{% endfor %}
{%- endif %}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think></think>
{% endif %}{% endif %}"""


def tokenizer(text: pathlib.Path) -> PreTrainedTokenizerFast:
    files = sorted(str(f) for kind in ("*.md", "*.go") for f in text.rglob(kind))[:300]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.train(files, trainers.BpeTrainer(
        vocab_size=VOCABULARY, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"]))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"], model_max_length=CONTEXT)
    fast.chat_template = TEMPLATE
    return fast


def adapter(base: pathlib.Path, out: pathlib.Path) -> None:
    """Writes the files that the peft library would."""
    weights = {}
    for layer in range(LAYERS):
        for name, width in (("q_proj", HEADS * HEAD), ("v_proj", KV_HEADS * HEAD)):
            at = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[f"{at}.lora_A.weight"] = torch.randn(RANK, HIDDEN) / 20
            weights[f"{at}.lora_B.weight"] = torch.randn(width, RANK) / 20
    out.mkdir(parents=True, exist_ok=True)
    (out / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(base), "inference_mode": True,
        "r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.0, "bias": "none", "target_modules": ["q_proj", "v_proj"]}))
    save_file(weights, out / "adapter_model.safetensors")


def main() -> None:
    args = argparse.ArgumentParser()
    args.add_argument("--text", type=pathlib.Path, required=True)
    args.add_argument("out", type=pathlib.Path)
    given = args.parse_args()
    torch.manual_seed(1)
    words, model = tokenizer(given.text), given.out / "model"
    words.save_pretrained(model)
    config = Qwen3Config(
        vocab_size=len(words), hidden_size=HIDDEN, intermediate_size=3 * HIDDEN, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD, max_position_embeddings=CONTEXT,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id)
    adapter(model, given.out / "lora")
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(model)  # last: its weights tell that all is there


main()
