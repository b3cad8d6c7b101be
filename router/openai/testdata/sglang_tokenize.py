#!/usr/bin/env python3
"""SGLang's own published protocol classes, run without the engine: what its
tokenizer endpoint renders, beside what its chat endpoint renders.

usage: sglang_tokenize.py WHEEL

WHEEL is SGLang's wheel as PyPI has it; it is imported from and not installed.
The interpreter needs openai, pydantic and msgspec. stdin: lines of JSON {"chat":
a chat completion, "ask": what /tokenize is asked for it}. stdout: for each a
line of JSON, the names of the fields in which the two chats that SGLang would
render differ, or {"error": why SGLang refuses one}.
"""
import importlib.abc
import importlib.machinery
import json
import sys
import types
import zipfile
from unittest import mock


class Standins(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of SGLang besides the protocol, without behaviour."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "sglang":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: mock.MagicMock(name=name)
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Standins())
protocol = sys.modules["protocol"] = types.ModuleType("protocol")  # where its classes look their names up
source = zipfile.ZipFile(sys.argv[1]).read("sglang/srt/entrypoints/openai/protocol.py")
exec(compile(source, "protocol.py", "exec"), protocol.__dict__)

for line in sys.stdin:
    pair = json.loads(line)
    try:
        chat = protocol.ChatCompletionRequest.model_validate(pair["chat"])
        asked = protocol.TokenizeRequest.model_validate(pair["ask"]).to_chat_completion_request()
    except ValueError as e:
        print(json.dumps({"error": str(e)}), flush=True)
        continue
    a, b = chat.model_dump(), asked.model_dump()
    out = [k for k in sorted(a.keys() | b.keys()) if a.get(k) != b.get(k)]
    out += [k for k in sorted(chat.__private_attributes__) if getattr(chat, k) != getattr(asked, k)]
    print(json.dumps(out), flush=True)
