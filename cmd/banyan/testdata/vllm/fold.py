"""What a vLLM holds in its prefix cache, by its own words: a reader of KV events
that shares nothing with Banyan, not even the language.

    python fold.py REPLAY_ENDPOINT

Each line on stdin is a question, each line on stdout its answer, in JSON:

    {"ask": "held"}               {"seq": last batch, "held": blocks, "missed": batches, "kinds": {event: how many}}
    {"ask": "chains", "n": 3}     {"chains": [{"tokens": [...], "held": blocks of them from the start on}, ...]}

It asks the engine's replay socket for what is new at every question, so an answer
lacks nothing that was published before it.
"""

import json
import random
import struct
import sys

import msgspec
import zmq

END = b"\xff" * 8


class Fold:
    def __init__(self, replay: str):
        self.replay = replay
        self.context = zmq.Context()
        self.seq = -1
        self.missed = 0
        self.kinds = {}
        self.copies = {}  # block hash -> copies
        self.blocks = {}  # block hash -> (parent, tokens, plain): of all ever seen
        self.random = random.Random(1)

    def catch_up(self) -> None:
        while True:  # a long replay may drop batches: ask again from the gap
            before = self.seq
            gap = self.read_replay()
            if not gap:
                return
            if self.seq == before:
                self.missed += gap - self.seq - 1
                self.seq = gap - 1

    def read_replay(self) -> int:
        """Takes what follows; returns the number of the first batch beyond a gap, or 0."""
        with self.context.socket(zmq.DEALER) as s:
            s.setsockopt(zmq.LINGER, 0)
            s.setsockopt(zmq.RCVTIMEO, 60_000)
            s.setsockopt(zmq.RCVHWM, 0)
            s.connect(self.replay)
            s.send_multipart([b"", struct.pack(">Q", self.seq + 1)])
            gap = 0
            while True:
                *_, number, payload = s.recv_multipart()
                if number == END:
                    return gap
                seq = struct.unpack(">Q", number)[0]
                if seq == self.seq + 1:
                    self.take(msgspec.msgpack.decode(payload))
                    self.seq = seq
                elif seq > self.seq and not gap:
                    gap = seq

    def take(self, batch) -> None:
        for e in batch[1]:
            kind = e["type"]
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            if kind == "BlockStored":
                self.store(e)
            elif kind == "BlockRemoved":
                for h in e["block_hashes"]:
                    self.copies[h] = self.copies.get(h, 0) - 1
                    if self.copies[h] <= 0:
                        del self.copies[h]
            elif kind == "AllBlocksCleared":
                self.copies.clear()
            else:
                raise ValueError(f"unknown event {kind}")

    def store(self, e) -> None:
        parent, size = e["parent_block_hash"], e["block_size"]
        plain = not e.get("lora_name") and not any(e.get("extra_keys") or [])
        for i, h in enumerate(e["block_hashes"]):
            self.copies[h] = self.copies.get(h, 0) + 1
            self.blocks[h] = (parent, e["token_ids"][i * size:(i + 1) * size], plain)
            parent = h

    def chain(self):
        """A prompt that ends in a block that is held, and how many of its blocks are, from the first on."""
        h = self.random.choice([h for h in self.copies if self.blocks[h][2]])
        path = []
        while h is not None:
            path.append(h)
            h = self.blocks[h][0]
        path.reverse()
        held = next((i for i, h in enumerate(path) if h not in self.copies), len(path))
        return {"tokens": [t for h in path for t in self.blocks[h][1]], "held": held}

    def answer(self, question):
        self.catch_up()
        if question["ask"] == "chains":
            return {"chains": [self.chain() for _ in range(question["n"])]}
        return {"seq": self.seq, "held": len(self.copies), "missed": self.missed, "kinds": self.kinds}


def main() -> None:
    fold = Fold(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(fold.answer(json.loads(line))), flush=True)


main()
