"""A FastAPI server that tells what it parsed of a body: with vLLM's own gate
(entrypoints/serve/utils/api_utils.py, validate_json_request), without one, and
with a handler that parses whatever came."""
import asyncio
import socket

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

INTERNAL = {"kv_transfer_params", "bootstrap_host", "disaggregated_params", "kv_cache_report_mode"}


async def validate_json_request(raw_request: Request):
    content_type = raw_request.headers.get("content-type", "").lower()
    media_type = content_type.split(";", maxsplit=1)[0]
    if media_type != "application/json":
        raise RequestValidationError(errors=["Unsupported Media Type: Only 'application/json' is allowed"])


class Body(BaseModel):
    model_config = ConfigDict(extra="allow")
    kv_transfer_params: dict | None = None


def leaked(value):
    """The names of INTERNAL in the places that engines read."""
    if isinstance(value, list):
        return [name for element in value for name in leaked(element)]
    if not isinstance(value, dict):
        return []
    found = [name for name in value if name in INTERNAL]
    for carrier in ("vllm_xargs", "extra_args", "sampling_params"):
        found += leaked(value.get(carrier))
    return found


app = FastAPI(strict_content_type=False)


def answer(body: Body):
    return {"parsed": True, "leaked": leaked({k: v for k, v in body.model_dump(exclude_unset=True).items()})}


@app.post("/v1/messages", dependencies=[Depends(validate_json_request)])
async def gated(body: Body):
    return answer(body)


@app.post("/v1/ungated")
async def ungated(body: Body):
    return answer(body)


@app.post("/v1/direct")
async def direct(request: Request):
    return {"parsed": True, "leaked": leaked(await request.json())}


async def main():
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="critical")).serve(sockets=[sock])


asyncio.run(main())
