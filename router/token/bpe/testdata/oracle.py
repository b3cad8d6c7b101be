"""Encodes texts with tokenizers (Rust): the oracle of the tests here.

oracle.py FILE...    reads {"texts": [...], "special": bool} from stdin, writes for each file a list of ids for each text
oracle.py --time FILE  reads a text from stdin, writes tokens and the best seconds of ten runs
oracle.py --train    reads [texts, vocabulary size] from stdin, writes a tokenizer.json trained on them
"""

import json
import sys
import time

import tokenizers
from tokenizers import Tokenizer


def train():
    texts, size = json.load(sys.stdin)
    t = Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    t.train_from_iterator(texts, trainer)
    print(t.to_str())


def main():
    if sys.argv[1] == "--train":
        return train()
    if sys.argv[1] == "--time":
        t = Tokenizer.from_file(sys.argv[2])
        text = sys.stdin.read()
        best = 1e9
        for _ in range(10):
            begin = time.perf_counter()
            n = len(t.encode_batch_fast([text], add_special_tokens=False)[0].ids)
            best = min(best, time.perf_counter() - begin)
        print(json.dumps({"tokens": n, "seconds": best}))
        return
    asked = json.load(sys.stdin)
    answers = []
    for file in sys.argv[1:]:
        t = Tokenizer.from_file(file)
        answers.append([t.encode(x, add_special_tokens=asked["special"]).ids for x in asked["texts"]])
    json.dump(answers, sys.stdout)


main()
