#!/usr/bin/env python3
"""SGLang's own published event code, run without the engine: its recorder makes
the events of radix nodes, its publisher sends them and answers replays.

usage: sglang_engine.py WHEEL PAGE FORMAT

WHEEL is SGLang's wheel as PyPI has it; it is imported from and not installed.
The interpreter needs msgspec, pyzmq, pydantic and psutil. What the modules
import besides (kernels, the server's configuration) is a stand-in without
behaviour, but for the node hash, which SGLang compiles: it is written out here
as SGLang documents it (SHA-256 over the digest before and each token).

FORMAT is "default" or "dynamo". stdin: one JSON list of operations a line makes
one batch: {"store": NAME, "parent": NAME or null, "tokens": [...], "salt": S,
"lora": L, "session": S, "medium": M}, {"remove": NAME, "medium": M},
{"clear": true}; {"load": [ten numbers]} alone answers with the bytes of a
LoadStat. stdout: one line of JSON with the bound endpoints, then one a command.
"""
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import time
import types
from unittest import mock

wheel, page, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
REAL = {
    "sglang.srt.disaggregation.kv_events", "sglang.srt.mem_cache.events", "sglang.srt.mem_cache.utils",
    "sglang.srt.utils.network", "sglang.srt.managers.scheduler_components.load_publisher",
}


class Parents(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Packages of SGLang as folders of the wheel, without what they run; modules
    that are not asked for as stand-ins."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] != "sglang" or name in REAL:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = [wheel + "/" + spec.name.replace(".", "/")]
        module.__getattr__ = lambda name: mock.MagicMock(name=name)
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Parents())


def node_hash(tokens, prior, page_size):
    """SHA-256 of each page, chained."""
    out, digest = [], prior or b""
    tokens = list(tokens)
    for at in range(0, len(tokens), page_size):
        h = hashlib.sha256(digest)
        for t in tokens[at:at + page_size]:
            h.update(int(t).to_bytes(4, "little"))
        digest = h.digest()
        out.append(digest.hex())
    return out


import sglang.srt.mem_cache.cpp_utils.native_hash as native  # noqa: E402

native.get_native_hash = node_hash

from sglang.srt.disaggregation.kv_events import KVEventBatch, ZmqEventPublisher  # noqa: E402
from sglang.srt.mem_cache.events import KVCacheEventRecorder, KvEventLoraNames  # noqa: E402

load_publisher = importlib.import_module("sglang.srt.managers.scheduler_components.load_publisher")


class Key:
    is_bigram = False

    def __init__(self, tokens, extra_key, salt):
        self.token_ids, self.extra_key, self.cache_salt = tokens, extra_key, salt

    def __len__(self):
        return len(self.token_ids)

    def __iter__(self):
        return iter(self.token_ids)


class Node:
    def __init__(self, key, parent):
        self.key, self.parent, self.hash_value, self.event_hash_value = key, parent, None, None


names = KvEventLoraNames()
recorder = KVCacheEventRecorder(enabled=True, page_size=page, dynamo_format=form == "dynamo", lora_names=names)
publisher = ZmqEventPublisher(0, endpoint="tcp://127.0.0.1:*", replay_endpoint="tcp://127.0.0.1:*", topic="")
print(json.dumps({"events": publisher._local_pub_endpoint, "replay": publisher._local_replay_endpoint}), flush=True)

root = Node(Key([], None, None), None)
root.hash_value = []
nodes = {}
for line in sys.stdin:
    ops = json.loads(line)
    if isinstance(ops, dict):
        numbers = ops["load"]
        stat = load_publisher.LoadStat(*numbers[:4], 0, *numbers[4:])
        print(json.dumps({"topic": load_publisher.LOAD_TOPIC, "load": load_publisher._encoder.encode(stat).hex()}), flush=True)
        continue
    for op in ops:
        if "store" in op:
            extra = None
            if op.get("lora"):
                # Req adds the adapter's id, 32 characters, to the end of extra_key.
                extra = hashlib.md5(op["lora"].encode()).hexdigest()
                names.register(types.SimpleNamespace(lora_id=extra, extra_key=extra), op["lora"])
            parent = nodes[op["parent"]] if op.get("parent") else root
            node = Node(Key(op["tokens"], extra, op.get("salt")), parent)
            if (name := op["store"]) not in nodes:
                nodes[name] = node
            recorder.record_store(nodes[name], op.get("medium"), session_id=op.get("session"))
        elif "remove" in op:
            recorder.record_remove(nodes[op["remove"]], op.get("medium"))
        else:
            recorder.record_all_cleared()
    publisher.publish(KVEventBatch(ts=time.time(), events=recorder.take()))
    print(json.dumps({"done": len(ops)}), flush=True)
