#!/usr/bin/env python3
"""Makes chats and preferences, in the usual forms of JSONL, from real text that packages ship.

    make_chat.py FOLDER [--limit N]

Writes sft.jsonl        {"messages": [{"role": "user", "content": ..}, {"role": "assistant", "content": ..}, ..]}
and    preference.jsonl {"prompt": .., "chosen": .., "rejected": ..}
and, with every 50th record of each, sft.eval.jsonl and preference.eval.jsonl. The sources are WordNet (word and
meaning), FOLDOC (computing term and explanation) and chitchat-dataset (conversations of two people). The rejected
answer is another question's real answer. The same packages always give the same bytes. `packaging/setup --chat`
installs them: dict-wn and dict-foldoc from Debian, chitchat-dataset in .deps/chat, which PYTHONPATH must have.
"""
import argparse
import gzip
import importlib.util
import itertools
import json
import random
import re
from pathlib import Path

KINDS = {"n": "noun", "v": "verb", "adj": "adjective", "adv": "adverb"}


def chat(*contents):
    return [{"role": ("user", "assistant")[i % 2], "content": content} for i, content in enumerate(contents)]


def squeeze(text):
    return " ".join(text.split())


def dictionary(name):
    """Returns the entries of a dictd database, in the order of the file. Its index has a word, an offset and a length
    in each line."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

    def number(text):
        return sum(digits.index(digit) * 64 ** power for power, digit in enumerate(reversed(text)))

    data = gzip.decompress(Path(f"/usr/share/dictd/{name}.dict.dz").read_bytes())
    index = Path(f"/usr/share/dictd/{name}.index").read_text(encoding="utf-8", errors="replace")
    places = {(number(place[1]), number(place[2])) for place in map(lambda line: line.split("\t"), index.splitlines())
              if not place[0].startswith("00")}
    for offset, length in sorted(places):
        yield re.sub(r"[{}]|\\[^\\\n]*\\", "", data[offset:offset + length].decode("utf-8", errors="replace"))


def wordnet():
    """Question and answer from the first sense of each entry."""
    for entry in dictionary("wn"):
        text = squeeze(re.sub(r"\[(syn|ant|also):[^\]]*\]", "", entry))
        match = re.match(r"(\S.*?) (n|v|adj|adv)(?: 1)?: (.+?)(?: (?:(?:n|v|adj|adv) )?\d+: .*)?$", text)
        if match:
            head, kind, meaning = match.group(1), KINDS[match.group(2)], match.group(3)
            yield chat(f'What does the {kind} "{head}" mean?', f'The {kind} "{head}" means: {meaning}')


def foldoc():
    """Question and answer from the indented paragraphs under each term, less their dates and subject marks."""
    for entry in dictionary("foldoc"):
        term = entry.lstrip().partition("\n")[0].strip()
        # other spellings are not indented
        text = "\n".join(line for line in entry.splitlines() if not line[:1].strip())
        paragraphs = map(squeeze, re.split(r"\n\s*\n", text))
        kept = [part for part in paragraphs if part and not re.fullmatch(r"\(\d{4}-\d\d-\d\d\)", part)]
        answer = "\n\n".join(kept)
        if len(answer) >= 80:
            yield chat(f"What is {term} in computing?", re.sub(r"(^|\d\. )<[^>]*> ", r"\1", answer))


def chitchat():
    """Two people's conversations; the first to speak is the user."""
    spec = importlib.util.find_spec("chitchat_dataset")
    path = Path(spec.origin).parent / "dataset.json"
    for conversation in json.loads(path.read_text(encoding="utf-8")).values():
        lines = [line for block in conversation["messages"] for line in block if line["text"].strip()]
        turns = ["\n".join(line["text"].strip() for line in group)
                 for _, group in itertools.groupby(lines, key=lambda line: line["sender"])]
        if len({line["sender"] for line in lines}) == 2 and len(turns) >= 2:
            yield chat(*turns[:len(turns) // 2 * 2])


SOURCES = (wordnet, foldoc, chitchat)


def preferences(conversations, shuffle):
    """The first question with its answer, and with an answer from elsewhere in the same source."""
    others = list(conversations)
    shuffle(others)
    for messages, other in zip(conversations, others):
        chosen, rejected = messages[1]["content"], other[1]["content"]
        if chosen != rejected:
            yield {"prompt": messages[0]["content"], "chosen": chosen, "rejected": rejected}


def write(folder, name, records):
    paths = folder / f"{name}.jsonl", folder / f"{name}.eval.jsonl"
    counts = [0, 0]
    with open(paths[0], "w", encoding="utf-8") as train, open(paths[1], "w", encoding="utf-8") as held_out:
        for i, record in enumerate(records):
            where = i % 50 == 49
            (train, held_out)[where].write(json.dumps(record, ensure_ascii=False) + "\n")
            counts[where] += 1
    for path, count in zip(paths, counts):
        print(json.dumps({"file": path.name, "records": count, "bytes": path.stat().st_size}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--limit", type=int, default=8000, help="conversations of each source; default: %(default)s")
    args = parser.parse_args()
    chance = random.Random(0)
    sft, pairs = [], []
    for source in SOURCES:
        conversations = list(source())
        chance.shuffle(conversations)
        conversations = conversations[:args.limit]
        sft += [{"messages": messages} for messages in conversations]
        pairs += preferences(conversations, chance.shuffle)
    chance.shuffle(sft)
    chance.shuffle(pairs)
    args.folder.mkdir(parents=True, exist_ok=True)
    write(args.folder, "sft", sft)
    write(args.folder, "preference", pairs)


if __name__ == "__main__":
    main()
