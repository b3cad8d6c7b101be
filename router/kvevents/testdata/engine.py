#!/usr/bin/env python3
"""The event publisher of an inference engine on a real libzmq, for
interoperability tests: PUB, and a replay ROUTER with libzmq's own send queue.

usage: engine.py bind|connect EVENTS REPLAY LAYOUT TS

LAYOUT is the replay's: 4 (no topic) or 5. TS is the time (s) of batch 0; every
batch is 1 ms later. stdin: "emit N" publishes N batches, "lose N" only keeps
them for the replay; "clears N" publishes one batch of N clears. stdout: one line of JSON with the bound endpoints, then one
line for each command done, with the number of batches so far.
"""
import collections
import json
import os
import struct
import sys

import zmq

how, events, replay, layout, ts = sys.argv[1:6]
topic = b"kv@127.0.0.1:8000@org/model"
ctx = zmq.Context()
pub, rep = ctx.socket(zmq.PUB), ctx.socket(zmq.ROUTER)
pub.linger = rep.linger = 0
pub.set_hwm(100_000)
(pub.bind if how == "bind" else pub.connect)(events)
rep.bind(replay)
name = lambda s: s.last_endpoint.decode().rstrip("\0")
print(json.dumps({"events": name(pub), "replay": name(rep)}), flush=True)

kept, seq = collections.deque(maxlen=10_000), 0


def text(s):
    return bytes([0xA0 | len(s)]) + s


def batch(n):
    """One BlockStored of 16 tokens in map form, hash 100 + n."""
    event = b"\x86" + text(b"type") + text(b"BlockStored") + text(b"block_hashes") + b"\x91\xcf" + struct.pack(">Q", 100 + n)
    event += text(b"parent_block_hash") + b"\xc0" + text(b"token_ids") + b"\xdc\x00\x10" + b"".join(b"\xcd" + struct.pack(">H", n % 60_000 + i) for i in range(16))
    event += text(b"block_size") + b"\x10" + text(b"medium") + text(b"GPU")
    return b"\x93\xcb" + struct.pack(">d", float(ts) + n / 1000) + b"\x91" + event + b"\x00"


def clears(n):
    """n AllBlocksCleared in one batch."""
    event = b"\x81" + text(b"type") + text(b"AllBlocksCleared")
    return b"\x93\xcb" + struct.pack(">d", float(ts) + seq / 1000) + b"\xdd" + struct.pack(">I", n) + n * event + b"\x00"


def answer():
    frames = rep.recv_multipart()
    if len(frames) != 3:
        return
    who, start = frames[0], int.from_bytes(frames[2], "big")
    head = (who, b"", topic) if layout == "5" else (who, b"")
    for n, payload in kept:
        if n >= start:
            rep.send_multipart((*head, struct.pack(">Q", n), payload))
    end = (who, b"", b"") if layout == "5" else (who, b"")
    rep.send_multipart((*end, b"\xff" * 8, b""))


poller = zmq.Poller()
poller.register(sys.stdin.fileno(), zmq.POLLIN)
poller.register(rep, zmq.POLLIN)
pending = b""
while True:
    ready = dict(poller.poll(1000))
    if rep in ready:
        answer()
    if sys.stdin.fileno() in ready:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            word, count = line.split()
            for _ in range(1 if word == b"clears" else int(count)):
                payload = clears(int(count)) if word == b"clears" else batch(seq)
                kept.append((seq, payload))
                if word != b"lose":
                    pub.send_multipart((topic, struct.pack(">Q", seq), payload))
                seq += 1
            print(seq, flush=True)
