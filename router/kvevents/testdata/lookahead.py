#!/usr/bin/env python3
"""Writes the vectors of vLLM's lookahead hashes, made by vLLM's own code.

usage: lookahead.py KV_EVENTS KV_CACHE_UTILS > lookahead.jsonl

KV_EVENTS and KV_CACHE_UTILS are vllm/distributed/kv_events.py and
vllm/v1/core/kv_cache_utils.py of a release from 0.33 on (the files of the wheel;
nothing of it is run but the classes and functions named here). Needs msgspec.
"""
import ast
import hashlib
import json
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec


def load(path, names, scope):
    """Executes the named classes and functions of a file."""
    nodes = {n.name: n for n in ast.parse(open(path).read()).body if hasattr(n, "name")}
    wanted = ast.Module([nodes[n] for n in names], [])
    exec(compile(ast.fix_missing_locations(wanted), path, "exec"), scope)


utils = {
    "Any": Any, "Callable": Callable, "Iterable": Iterable, "Sequence": Sequence, "BlockHash": bytes, "CachingHashFn": object, "NONE_HASH": b"\0" * 32, "Request": object,
    "get_mm_features_in_window": lambda features, start, end: (0, 0),
    "_gen_lora_extra_hash_keys": lambda request: [], "_gen_prompt_embeds_extra_hash_keys": lambda request, start, end: [],
    "_gen_lora_extra_hash_keys": lambda request: [],
}
load(sys.argv[2], [
    "_gen_mm_extra_hash_keys", "generate_block_hash_extra_keys", "to_event_extra_keys", "hash_block_tokens", "get_request_block_hasher",
    "generate_lookahead_block_hash_extra_keys",
], utils)
events = {"msgspec": msgspec, "ExternalBlockHash": bytes | int, "Any": Any}
load(sys.argv[1], ["EventBatch", "KVCacheEvent", "BlockStored", "BlockRemoved", "AllBlocksCleared", "KVEventBatch"], events)

PAGE, TOPIC, TS = 16, b"kv@10.0.0.7:8000@Qwen/Qwen3-8B", 1700000000.25
hasher = lambda value: hashlib.sha256(pickle.dumps(value, protocol=5)).digest()


def stored(tokens, ahead, images=(), **more):
    """What vLLM says when all whole pages of a prompt are stored."""
    features = [SimpleNamespace(identifier=i, mm_position=SimpleNamespace(offset=at, length=n)) for i, at, n in images]
    request = SimpleNamespace(block_hashes=[], num_tokens=len(tokens), all_token_ids=tokens, mm_features=features, cache_salt=None)
    hashes = utils["get_request_block_hasher"](PAGE, hasher, ahead)(request)
    extra, at = [], 0
    for i in range(len(hashes)):
        if ahead:
            keys, at = utils["generate_lookahead_block_hash_extra_keys"](request, i * PAGE, (i + 1) * PAGE, (i + 1) * PAGE + ahead, at)
        else:
            keys, at = utils["generate_block_hash_extra_keys"](request, i * PAGE, (i + 1) * PAGE, at)
        extra.append(keys)
    fields = {
        "block_hashes": hashes, "parent_block_hash": None, "token_ids": tokens[:PAGE * len(hashes)], "block_size": PAGE, "lora_id": None,
        "medium": "GPU", "lora_name": None, "extra_keys": utils["to_event_extra_keys"](extra), "group_idx": 0, "session_id": "s",
        "lookahead_token_ids": [tokens[(i + 1) * PAGE:(i + 1) * PAGE + ahead] for i in range(len(hashes))] if ahead else None,
    }
    return events["BlockStored"](**(fields | more))


count = 0


def tell(description, *what, verdict="accept"):
    global count
    batch = events["KVEventBatch"](ts=TS, events=list(what), data_parallel_rank=0)
    decoded = []
    for e in what:
        d = {"type": type(e).__name__} | {f: getattr(e, f) for f in e.__struct_fields__ if getattr(e, f) is not None}
        if "block_hashes" in d:
            d["block_hashes"] = ["bytes:" + h.hex() for h in e.block_hashes]
        decoded.append(d)
    body = {"topic": TOPIC.decode(), "seq": count, "ts": TS, "dp_rank": 0, "events": decoded}
    if verdict != "accept":
        body = {"kept_events": 0}
    frames = [TOPIC, struct.pack(">Q", count), msgspec.msgpack.Encoder().encode(batch)]
    print(json.dumps({
        "id": f"vllm-033-{count:03}", "engine": "vllm", "version": "0.33.0 own classes", "kind": "live", "description": description,
        "frames_hex": [f.hex() for f in frames], "verdict": verdict, "decoded": body,
    }, separators=(",", ":")))
    count += 1


text = list(range(1000, 1040))
tell("two pages, one token ahead: a third page has no token behind it", stored(text, 1))
tell("the same two pages before another token: the last hash differs", stored(text[:32] + [7], 1))
tell("32 tokens: one page, no token stands behind the second", stored(text[:32], 1))
tell("three tokens ahead (several MTP modules)", stored(text, 3))
tell("an image that begins right behind the first page is among its extra keys", stored(text, 1, [("img", 16, 8)]))
tell("an image across two pages, and one behind the second", stored(text, 1, [("a", 10, 10), ("b", 32, 4)]))
tell("without lookahead", stored(text, 0))
tell("a removal names the hash alone", events["BlockRemoved"](block_hashes=stored(text, 1).block_hashes, medium="GPU", group_idx=0))
tell("fewer lists than pages", stored(text, 1, lookahead_token_ids=[[5]]), verdict="drop_event")
tell("a list without a token", stored(text, 1, lookahead_token_ids=[[5], []]), verdict="drop_event")
