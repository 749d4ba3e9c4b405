#!/usr/bin/env python3
"""Encoding speed beside the tokenizers package, in turns, on the same threads.

    compare.py TOKENIZE_DOCUMENTS TOKENIZER_JSON [--text FILE] [--threads N] [--megabytes N] [--rounds N]

Without --text, the mixed texts of the tokenizer test. Documents have about 4 KB. The package runs its fastest
call, encode_batch_fast, which keeps no offsets; neither side's reading of files is counted. Best of the rounds.
"""
import argparse
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "worker" / "tokenizer"))
from tokenizer_texts import documents  # noqa: E402

DOCUMENT_BYTES = 4000


def texts_of(args):
    if args.text:
        data = args.text.read_bytes()[:int(args.megabytes * 1e6)]
    else:
        data = b"".join(documents(int(args.megabytes * 1e6), seed=5))
    pieces = [data[at:at + DOCUMENT_BYTES] for at in range(0, len(data), DOCUMENT_BYTES)]
    return [piece.decode("utf-8", errors="replace") for piece in pieces]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("tokenizer")
    parser.add_argument("--text", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if args.threads > 1 else "false"
    from tokenizers import Tokenizer
    texts = texts_of(args)
    encoded = [text.encode() for text in texts]
    size = sum(map(len, encoded)) / 1e6
    theirs, ours = [], []
    with tempfile.TemporaryDirectory(prefix="roll_bench.") as folder:
        file = Path(folder) / "documents"
        file.write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in encoded))
        for _ in range(args.rounds):
            tokenizer = Tokenizer.from_file(args.tokenizer)
            start = time.perf_counter()
            tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            theirs.append(time.perf_counter() - start)
            run = subprocess.run([args.program, args.tokenizer, file, "-", str(args.threads)], capture_output=True,
                                 text=True, check=True)
            ours.append(float(run.stdout))
    print(f"{size:.1f} MB, {len(texts)} documents, {args.threads} threads: tokenizers {size / min(theirs):.1f} MB/s, "
          f"roll {size / min(ours):.1f} MB/s: {min(theirs) / min(ours):.1f} times")


if __name__ == "__main__":
    main()
