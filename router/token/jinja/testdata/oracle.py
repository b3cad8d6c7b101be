"""Renders templates with jinja2 set up as transformers sets it up.

Reads {"templates": [source], "cases": [variables]} from standard input, prints
one row of {"text": ...} or {"error": ...} for each template.
"""

import datetime
import json
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception
env.globals["strftime_now"] = lambda f: datetime.datetime(2026, 3, 5, 14, 7, 9).strftime(f)

given = json.load(sys.stdin)
out = []
for source in given["templates"]:
    row = []
    for case in given["cases"]:
        try:
            row.append({"text": env.from_string(source).render(**case)})
        except Exception as e:
            row.append({"error": repr(e)})
    out.append(row)
json.dump(out, sys.stdout)
