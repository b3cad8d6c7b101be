#!/usr/bin/env python3
"""SGLang's own published classes, run without the engine: what its tokenizer
endpoint renders, beside what its chat, Messages and Responses endpoints render.

usage: sglang_tokenize.py WHEEL

WHEEL is SGLang's wheel as PyPI has it; it is imported from and not installed.
The interpreter needs openai, pydantic and msgspec. stdin: lines of JSON {"api":
chat, messages or responses, "body": a request, "asks": what /tokenize may be
asked for it, "server": for the latter two how the server was started: inline
(its template takes system messages in the middle), thoughts (apart, inside or
gone), toggle (the template's argument for thinking, or "")}. stdout: for each a
line of JSON, the names of the fields in which the chat that SGLang would render
and the nearest of those asked for differ, or {"error": why SGLang refuses one}.
"""
import asyncio
import importlib.abc
import importlib.machinery
import json
import logging
import sys
import types
import zipfile
from unittest import mock


class Standins(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of SGLang besides those read here, and what they import and the
    conversions do not use, without behaviour."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sglang", "fastapi", "jinja2", "openai_harmony", "orjson", "mcp", "numpy", "torch", "transformers", "starlette", "httpx_sse", "PIL"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = lambda name: mock.MagicMock(name=name)
        return module

    def exec_module(self, module):
        pass


logging.disable(logging.CRITICAL)
sys.meta_path.insert(0, Standins())
wheel = zipfile.ZipFile(sys.argv[1])


def load(name):
    """runs one module of the wheel as it is published"""
    module = sys.modules[name] = types.ModuleType(name)
    source = wheel.read(name.replace(".", "/") + ".py")
    exec(compile(source, name + ".py", "exec"), module.__dict__)
    return module


def orjson_standin():
    module = sys.modules["orjson"] = types.ModuleType("orjson")
    module.loads, module.JSONDecodeError = json.loads, json.JSONDecodeError
    module.dumps = lambda v: json.dumps(v, separators=(",", ":"), ensure_ascii=False).encode()


class ChatServing:
    """The parts of OpenAIServingChat that the conversions ask."""

    def __init__(self, server):
        self.server, self.supports_inline_system = server, server["inline"]

    def supports_native_reasoning_history(self):
        return self.server["thoughts"] == "apart"

    def wrap_reasoning_history(self, text):
        if self.server["thoughts"] == "gone":
            raise ValueError("no reasoning detector")
        return f"<think>{text}\n</think>"

    def apply_reasoning_enabled(self, request, enabled):
        if self.server["toggle"]:
            request.chat_template_kwargs = {**(request.chat_template_kwargs or {}), self.server["toggle"]: enabled}


orjson_standin()
base = "sglang.srt.entrypoints."
protocol = load(base + "openai.protocol")
anthropic = load(base + "anthropic.protocol")
load(base + "openai.responses_adapters")
chat_module = sys.modules[base + "openai.serving_chat"] = types.ModuleType("serving_chat")
chat_module.OpenAIServingChat = ChatServing
chat_module.__getattr__ = lambda name: mock.MagicMock(name=name)
messages = load(base + "anthropic.serving")
responses = load(base + "openai.serving_responses")


def convert(api, body, server):
    """the chat request that SGLang makes of a body"""
    if api == "chat":
        return protocol.ChatCompletionRequest.model_validate(body)
    if api == "messages":
        request = anthropic.AnthropicMessagesRequest.model_validate(body)
        return messages.AnthropicServing(ChatServing(server))._convert_to_chat_completion_request(request)
    serving = responses.OpenAIServingResponses.__new__(responses.OpenAIServingResponses)
    ChatServing.__init__(serving, server)
    serving.tool_call_parser, serving.msg_store, serving.tokenizer_manager = None, {}, mock.MagicMock()
    caught = []
    serving._validate_media_content = lambda chat: None
    serving._engine_prompt = lambda *args: (None, None)
    serving._process_messages = lambda chat, *args, **kwargs: (caught.append(chat.model_copy(deep=True)), mock.MagicMock())[1]
    request = protocol.ResponsesRequest.model_validate(body)
    asyncio.run(serving._make_request(request, None, None))
    return caught[0]


def shown(chat, api):
    """what of a chat the template sees"""
    out = chat.model_dump()
    if api == "messages" and chat.reasoning_effort is not None:  # which it is told beside the arguments
        out["chat_template_kwargs"] = {"reasoning_effort": chat.reasoning_effort, **(chat.chat_template_kwargs or {})}
        out["reasoning_effort"] = None
    for message in out["messages"]:
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    if out["tool_choice"] == "none":
        out["tools"] = None  # they are not shown then
    elif isinstance(out["tool_choice"], str):
        out["tool_choice"] = "not none"
    out["tools"] = json.dumps(out["tools"])  # in their order
    out["parallel_tool_calls"] = None  # no template sees it
    return out


for line in sys.stdin:
    pair = json.loads(line)
    api, best = pair.get("api", "chat"), None
    try:
        a = convert(api, pair["body"], pair.get("server"))
        for ask in pair["asks"]:
            b = protocol.TokenizeRequest.model_validate(ask).to_chat_completion_request()
            x, y = shown(a, api), shown(b, api)
            out = [k for k in sorted(x.keys() | y.keys()) if x.get(k) != y.get(k)]
            out += [k for k in sorted(a.__private_attributes__) if getattr(a, k) != getattr(b, k)]
            if best is None or len(out) < len(best):
                best = out
    except ValueError as e:
        print(json.dumps({"error": str(e)}), flush=True)
        continue
    print(json.dumps(best), flush=True)
