"""Writes tokenizer.json files from vocabularies in public packages, for the tests here.

vocabularies.py OUT OLLAMA TIKTOKEN LLAMA
  OUT       folder to write to
  OLLAMA    Go module github.com/ollama/ollama v0.17.4, folder tokenizer/testdata
  TIKTOKEN  npm tiktoken 1.0.22, unpacked
  LLAMA     npm llama-tokenizer-js 1.2.2, unpacked (read with node)

The licences of these vocabularies were not checked: none is committed. Files whose name ends in "-like"
have the rules of one family and the vocabulary of another: they test rules only.
"""

import base64
import json
import os
import subprocess
import sys

OUT, OLLAMA, TIKTOKEN, LLAMA = sys.argv[1:]

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
QWEN35 = CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + BLANKS


def cased(without, contraction):
    up, low = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + without + "]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + without + "]"
    return rf"[^\r\n\p{{L}}\p{{N}}]?{up}*{low}+{contraction}|[^\r\n\p{{L}}\p{{N}}]?{up}+{low}*{contraction}"


O200K = cased("", CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS
TEKKEN = cased("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS
KIMI = r"[\p{Han}]+|" + cased(r"&&[^\p{Han}]", CONTRACTION + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + BLANKS
DEEPSEEK = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|".replace('\\"', '"') + BLANKS,
]


def byte_level(regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def split(pattern, kind="Regex", behavior="Isolated"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": False}


def cuts(*patterns):
    return {"type": "Sequence", "pretokenizers": [split(p) for p in patterns] + [byte_level()]}


def added(i, content, special=True, **flags):
    token = {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": not special, "special": special}
    return token | flags


def bos(token, i):
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}},
    }


def write(name, vocab, merges, tokens, pre, normalizer=None, post=None, **model):
    base = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    base |= {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False} | model | {"vocab": vocab, "merges": merges}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer}
    whole |= {"pre_tokenizer": pre, "post_processor": post, "decoder": None, "model": base}
    with open(os.path.join(OUT, name + ".json"), "w") as f:
        json.dump(whole, f, ensure_ascii=False)


def byte_runes():
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    runes, n = {}, 0
    for b in range(256):
        if b in plain:
            runes[b] = chr(b)
        else:
            runes[b] = chr(256 + n)
            n += 1
    return runes


RUNES = byte_runes()


def merges_of(ranks, text, order):
    """All the ways to make a token of two, the tokens in their order (as transformers converts them)."""
    merges = []
    for token in sorted(ranks, key=order):
        halves = [(token[:i], token[i:]) for i in range(1, len(token))]
        halves = [h for h in halves if h[0] in ranks and h[1] in ranks]
        merges += [[text(a), text(b)] for a, b in sorted(halves, key=lambda h: (ranks[h[0]], ranks[h[1]]))]
    return merges


def specials(first, *contents):
    return [added(first + i, c) for i, c in enumerate(contents)]


def llama3():
    vocab = json.load(open(OLLAMA + "/llama3.2/encoder.json"))
    merges = [line for line in open(OLLAMA + "/llama3.2/vocab.bpe", encoding="utf-8").read().split("\n") if line]
    tokens = specials(len(vocab), "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>")
    post = {"type": "Sequence", "processors": [byte_level(True), bos("<|begin_of_text|>", len(vocab))]}
    nfc = {"type": "NFC"}
    write("llama3", vocab, merges, tokens, cuts(LLAMA3), None, post, ignore_merges=True)
    write("llama3-merges-like", vocab, merges, tokens, cuts(CL100K), None, post)
    write("qwen2-like", vocab, merges, specials(len(vocab), "<|endoftext|>", "<|im_start|>", "<|im_end|>"), cuts(QWEN2), nfc, byte_level())
    write("qwen35-like", vocab, merges, specials(len(vocab), "<|endoftext|>", "<|im_start|>", "<|im_end|>"), cuts(QWEN35), nfc, byte_level())
    deepseek = specials(len(vocab), "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>")
    write("deepseek-like", vocab, merges, deepseek, cuts(*DEEPSEEK), {"type": "Sequence", "normalizers": []}, None)
    starcoder = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(True)]}
    write("starcoder-like", vocab, merges, specials(len(vocab), "<|endoftext|>"), starcoder, None, None)


def o200k():
    source = json.load(open(TIKTOKEN + "/encoders/o200k_base.json"))
    ranks = {}
    for line in source["bpe_ranks"].split("\n"):
        _, offset, *tokens = line.split(" ")
        ranks |= {base64.b64decode(t): int(offset) + i for i, t in enumerate(tokens)}
    text = lambda b: "".join(RUNES[x] for x in b)
    vocab = {text(b): i for b, i in ranks.items()}
    vocab |= {f"<|hole_{i}|>": i for i in set(range(max(vocab.values()))) - set(vocab.values())}
    merges = merges_of(ranks, text, ranks.get)
    tokens = specials(len(vocab), "<|startoftext|>", "<|endoftext|>", "<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>")
    write("gpt-oss", vocab, merges, tokens, cuts(O200K), None, byte_level(True), ignore_merges=True)
    write("tekken-like", vocab, merges, specials(len(vocab), "<s>", "[INST]", "[/INST]"), cuts(TEKKEN), None, bos("<s>", len(vocab)))
    write("kimi-like", vocab, merges, specials(len(vocab), "[BOS]", "<|im_end|>"), cuts(KIMI), None, None)


def proto_pieces(data):
    """The pieces of a SentencePiece model: field 1, with fields piece, score, type."""

    def fields(b):
        i = 0

        def varint():
            nonlocal i
            n = shift = 0
            while True:
                n |= (b[i] & 127) << shift
                shift += 7
                i += 1
                if b[i - 1] < 128:
                    return n

        while i < len(b):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
            elif key & 7 == 5:
                i += 4
                yield key >> 3, b[i - 4 : i]
            elif key & 7 == 1:
                i += 8
                yield key >> 3, b[i - 8 : i]
            else:
                n = varint()
                i += n
                yield key >> 3, b[i - n : i]

    for number, value in fields(data):
        if number == 1:
            piece = dict(fields(value))
            yield piece[1].decode(), piece.get(3, 1)


def gemma():
    pieces = list(proto_pieces(open(OLLAMA + "/gemma2/tokenizer.model", "rb").read()))
    vocab = {p: i for i, (p, _) in enumerate(pieces)}
    normal = {p: vocab[p] for p, kind in pieces if kind == 1}
    merges = merges_of(normal, str, normal.get)
    # user-defined pieces (runs of line breaks and spaces, HTML) and control pieces
    tokens = [added(vocab[p], p, kind == 3, normalized=False) for p, kind in pieces if kind in (3, 4)]
    pre = split(" ", "String", "MergedWithPrevious")
    normalizer = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    write("gemma2", vocab, merges, tokens, pre, normalizer, bos("<bos>", vocab["<bos>"]), **options)


def llama2():
    script = f"""import t from '{LLAMA}/package/llama-tokenizer.js'
        console.log(JSON.stringify([t.vocabById, [...t.merges.keys()]]))"""
    env = {k: v for k, v in os.environ.items()}
    out = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, check=True, env=env, text=True).stdout
    by_id, merges = json.loads(out)
    vocab = {p: i for i, p in enumerate(by_id)}
    tokens = [added(vocab[p], p) for p in ("<unk>", "<s>", "</s>")]
    prepended = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    options = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    post = bos("<s>", vocab["<s>"])
    write("llama2", vocab, merges, tokens, None, prepended, post, **options)
    for scheme in ("first", "always", "never"):
        pre = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": scheme == "always"}
        write(f"mistral-{scheme}-like", vocab, merges, tokens, pre, None, post, **options)


os.makedirs(OUT, exist_ok=True)
llama3()
o200k()
gemma()
llama2()
