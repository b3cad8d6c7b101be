#!/usr/bin/env python3
"""A libzmq socket driven by lines of JSON, for interoperability tests.

usage: peer.py TYPE bind|connect ENDPOINT [HEARTBEAT_MS]

stdin:  {"send": [hex, ...]}              send one message
        {"burst": [hex, ...], "n": N}     send N messages; frame -2 counts up from its value (8 bytes)
stdout: {"ready": endpoint}               once
        {"recv": [hex, ...]}              for every message received (XPUB: subscriptions)
Ends when stdin does.
"""
import json
import os
import sys

import zmq

kind, how, endpoint = sys.argv[1:4]
sock = zmq.Context().socket(getattr(zmq, kind))
sock.linger = 0
if len(sys.argv) > 4:
    sock.heartbeat_ivl = int(sys.argv[4])
    sock.heartbeat_timeout = 3 * int(sys.argv[4])
if kind == "SUB":
    sock.subscribe(b"")
(sock.bind if how == "bind" else sock.connect)(endpoint)


def say(**what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


say(ready=sock.last_endpoint.decode().rstrip("\0"))
poller = zmq.Poller()
poller.register(sys.stdin.fileno(), zmq.POLLIN)
if kind != "PUB":
    poller.register(sock, zmq.POLLIN)
pending = b""
while True:
    ready = dict(poller.poll(1000))
    if sock in ready:
        say(recv=[f.hex() for f in sock.recv_multipart()])
    if sys.stdin.fileno() in ready:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            break
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            cmd = json.loads(line)
            if "send" in cmd:
                sock.send_multipart([bytes.fromhex(f) for f in cmd["send"]])
            else:
                frames = [bytes.fromhex(f) for f in cmd["burst"]]
                first = int.from_bytes(frames[-2], "big")
                for i in range(cmd["n"]):
                    frames[-2] = (first + i).to_bytes(8, "big")
                    sock.send_multipart(frames)
