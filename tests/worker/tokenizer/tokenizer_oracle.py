#!/usr/bin/env python3
"""Ids and texts equal to the tokenizers package's, for tokenizers of every kind trained here.

    tokenizer_oracle.py TOKENIZE_DOCUMENTS [--megabytes N] [--file TOKENIZER_JSON]...
"""
import argparse
import io
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import documents

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GROUPS_OF_DIGITS = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES)
SINGLE_DIGITS = GROUPS_OF_DIGITS.replace("{1,3}", "")
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|"
              r"\s*[\r\n]|\s+(?!\S)|\s+")
CASED = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES)
PUNCTUATED = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
              r""" ?[\p{P}\p{S}]+[\r\n]*|""" + SPACES)


def split(expression, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(expression), behavior, invert)


def byte_level(steps, normalizer=None, prefix=False, regex=False):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    last = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*steps, last]) if steps else last
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, pre_tokenizers.ByteLevel.alphabet()


def sentence_piece(normalizer, pre_tokenizer, decoder, **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, **options))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoder
    return tokenizer, []


def legacy(**options):
    return sentence_piece(
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
        decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                           decoders.Strip(" ", 1, 0)]), **options)


def metaspace(scheme, split_words, **options):
    return sentence_piece(None, pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split_words),
                          decoders.Metaspace(prepend_scheme=scheme), **options)


def kinds():
    yield "plain", byte_level([], regex=True)
    yield "prefixed", byte_level([], regex=True, prefix=True)
    yield "digits", byte_level([pre_tokenizers.Digits(individual_digits=True)], regex=True)
    yield "number", byte_level([pre_tokenizers.Digits(individual_digits=False)], regex=True)
    yield "grouped", byte_level([split(GROUPS_OF_DIGITS)])
    yield "composed", byte_level([split(SINGLE_DIGITS)], normalizers.NFC())
    yield "possessive", byte_level([split(POSSESSIVE)])
    yield "cased", byte_level([split(CASED)])
    yield "punctuated", byte_level([split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(PUNCTUATED)])
    yield "words", byte_level([split(r"\w+|[^\w\s]+", "removed", True)])
    for behavior in ("removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield behavior, byte_level([split(r"\s", behavior)])
    yield "whole words", byte_level([split(GROUPS_OF_DIGITS)])
    yield "legacy", legacy(byte_fallback=True)
    yield "no fallback", legacy()
    for scheme in ("always", "first", "never"):
        yield f"metaspace {scheme}", metaspace(scheme, True, byte_fallback=True)
    yield "metaspace whole", metaspace("first", False, byte_fallback=True)
    yield "unsplit", sentence_piece(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                                    decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                                       decoders.Fuse()]), byte_fallback=True)


def compiled_normalizer(rule):
    """Returns one of SentencePiece's own tables of characters (nmt_nfkc, nmt_nfkc_cf, ...), in the form of tokenizer
    files."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f g"] * 9), model_writer=model, vocab_size=12, hard_vocab_limit=False,
        normalization_rule_name=rule, minloglevel=2)
    return normalizers.Precompiled(
        sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec.precompiled_charsmap)


def unigram_parts(name):
    """Returns the parts around the model: normalizer and pre-tokenizer."""
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always" if "plain" in name else "first",
                                         split="whole" not in name)
    if "compiled" not in name:
        return None if "plain" in name else normalizers.NFC(), metaspace
    table = compiled_normalizer(name.split()[-1])
    if "words" in name:  # the form of T5 and XLM-R
        return table, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    return normalizers.Sequence([table, normalizers.Strip(left=False, right=True),
                                 normalizers.Replace(Regex(" {2,}"), "▁")]), metaspace


def unigram(name, texts):
    """Returns a tokenizer with a Unigram model and a kind of Metaspace."""
    specials = ["<unk>", "<s>", "</s>", "<|end|>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer = unigram_parts(name)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=1500, special_tokens=specials,
                                                                 unk_token="<unk>", show_progress=False))
    whole = json.loads(tokenizer.to_str())
    if "bytes" in name:
        whole["model"]["vocab"] += [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
        whole["model"]["byte_fallback"] = True
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.add_tokens(ADDED)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


# The first characters of these texts become several words, a word with a space before it, and nothing.
EDGES = ["\ufdfa و", "\ufdfb", "\u00a8 x", "\u2017\u0301 \u00bd", " \u200b a"]

ADDED = [AddedToken("<|left|>", lstrip=True, special=True), AddedToken("<|right|>", rstrip=True, special=True),
         AddedToken("<|word|>", single_word=True, normalized=False), AddedToken("é-token", normalized=True),
         AddedToken("<|lef", special=True), AddedToken("  ", normalized=False), AddedToken("\n\n\n", normalized=False)]


def train(name, tokenizer, alphabet, texts):
    specials = ["<unk>", "<s>", "</s>", "<|end|>"]
    trainer = trainers.BpeTrainer(vocab_size=3000, special_tokens=specials, initial_alphabet=alphabet,
                                  show_progress=False, limit_alphabet=600)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(ADDED)
    whole = json.loads(tokenizer.to_str())
    if whole["model"]["byte_fallback"]:
        vocab = whole["model"]["vocab"]
        start = max(vocab.values()) + 1 + len(ADDED)
        vocab.update({f"<0x{byte:02X}>": start + byte for byte in range(256)})
    whole["model"]["ignore_merges"] = name == "whole words"
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>" if name != "plain" else "<s> $A", special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def read_results(path, count):
    data, at = path.read_bytes(), 0
    for _ in range(count):
        row = []
        for width in (4, 4, 1, 1):
            size, = struct.unpack_from("<I", data, at)
            row.append(data[at + 4:at + 4 + size * width])
            at += 4 + size * width
        yield (list(struct.unpack(f"<{len(row[0]) // 4}I", row[0])),
               list(struct.unpack(f"<{len(row[1]) // 4}I", row[1])), row[2], row[3])


def compare(name, tokenizer, program, texts, folder):
    """Returns the number of documents that differ. Prints the first."""
    file, inputs, out = folder / "tokenizer.json", folder / "documents", folder / "out"
    tokenizer.save(str(file))
    inputs.write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in texts))
    run = subprocess.run([program, file, inputs, out], capture_output=True, text=True)
    if run.returncode != 0:
        print(f"{name}: {run.stderr.strip()}")
        return 1
    wrong = tokens = 0
    strings = [text.decode("utf-8", errors="replace") for text in texts]
    plain = [e.ids for e in tokenizer.encode_batch_fast(strings, add_special_tokens=False)]
    whole = [e.ids for e in tokenizer.encode_batch_fast(strings)]
    for text, ours, theirs, around in zip(strings, read_results(out, len(texts)), plain, whole):
        tokens += len(theirs)
        expected = (theirs, around, tokenizer.decode(around, skip_special_tokens=False).encode(),
                    tokenizer.decode(around).encode())
        for what, a, b in zip(("ids", "ids with special", "text", "text without special"), ours, expected):
            if a != b:
                wrong += 1
                if wrong == 1:
                    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                    part = slice(max(0, at - 3), at + 9)
                    show = [tokenizer.id_to_token(i) for i in a[part]] if what.startswith("ids") else ""
                    print(f"{name}: {what} differ at {at}: {a[part]} {show}; expected {b[part]} of {text[:60]!r}")
                break
    size = sum(map(len, texts))
    print(f"{name}: {len(texts)} documents, {size} bytes, {tokens} tokens, {wrong} differ", flush=True)
    return wrong


def files_in(folder, size, document=8000):
    """Returns parts of all files, text or not, with up to `size` bytes in all."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    each, texts = max(document, size // max(1, len(files))), []
    for file in files:
        with open(file, "rb") as opened:
            data = opened.read(each)
        texts += [data[at:at + document] for at in range(0, len(data), document)]
        size -= len(data)
        if size < 0:
            break
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--megabytes", type=float, default=0.04, help="of text for each tokenizer")
    parser.add_argument("--file", action="append", default=[], help="a tokenizer.json, instead of the trained ones")
    parser.add_argument("--texts", type=Path, help="a folder whose files are the texts, instead of the seeded ones")
    args = parser.parse_args()
    size = int(args.megabytes * 1e6)
    texts = files_in(args.texts, size) if args.texts else documents(size, seed=11)
    texts += [text.encode() for text in EDGES]
    sample = [text.decode("utf-8", errors="replace") for text in documents(150_000, seed=3)]
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="roll_tokenizer.") as folder:
        if args.file:
            for file in args.file:
                wrong += compare(file, Tokenizer.from_file(file), args.program, texts, Path(folder))
        else:
            for name, (tokenizer, alphabet) in kinds():
                tokenizer = train(name, tokenizer, alphabet, sample)
                wrong += compare(name, tokenizer, args.program, texts, Path(folder))
            for name in ("unigram plain", "unigram whole bytes", "unigram bytes", "unigram compiled nmt_nfkc",
                         "unigram bytes compiled nmt_nfkc_cf", "unigram words compiled nmt_nfkc"):
                wrong += compare(name, unigram(name, sample), args.program, texts, Path(folder))
    sys.exit(f"{wrong} documents differ" if wrong else 0)


if __name__ == "__main__":
    main()
