#!/usr/bin/env python3
"""Draws comments, messages and sentences of the docs for a reader who marks how readable they are.

The sample depends only on the tree and on COMMIT (the last commit if omitted): the seed is the
sha256 of its hash, and the items with the smallest sha256 of seed and item are drawn. Each item has
its file and line, the declaration or line that it belongs to, and for a sentence the sentence
before it. The reader replaces `[ ]` by `[1]` (read once) or `[2]` (read twice).
"""
import argparse
import hashlib
import os
import re
import subprocess

import tidy
from source import LITERALS, line_of

DRAWN = 200
WORDS_MIN = 4  # of a message or a sentence
DECLARATION_LINES = 3
NO_COMMENT = re.compile(r'//\s*(NOLINT|clang-format|namespace\b)')
WORD = re.compile(r"[A-Za-z][\w'-]*")


def words(text):
    """How many words a person reads in the text, without placeholders such as {} and {:.3g}."""
    return len(WORD.findall(re.sub(r'\{[^{} ]*\}', ' ', text)))


def declaration(lines, start):
    """The code from index `start` up to the end of a declaration, at most a few lines."""
    shown = []
    for line in lines[start:start + 20]:
        if not line.strip() or line.strip().startswith('//'):
            if shown:
                break
            continue
        shown.append(line.strip())
        if len(shown) == DECLARATION_LINES or re.search(r'[;{}]\s*(//.*)?$', line):
            break
    return ' '.join(shown)


def comments(text):
    """(line, text, declaration) of each block of // lines and each // behind code."""
    lines, found, at = text.split('\n'), [], 0
    literals = {}  # index of a line -> column of the // in it, if that is no part of a string
    for match in LITERALS.finditer(text):
        if match.group(0).startswith('//'):
            column = match.start() - text.rfind('\n', 0, match.start()) - 1
            literals[line_of(text, match.start()) - 1] = column
    while at < len(lines):
        if at not in literals or NO_COMMENT.match(lines[at][literals[at]:]):
            at += 1
            continue
        begin, column = at, literals[at]
        own_line = not lines[at][:column].strip()
        block = [lines[at][column:]]
        at += 1
        while own_line and at in literals and not lines[at][:literals[at]].strip():
            block.append(lines[at][literals[at]:])
            at += 1
        code = declaration(lines, at) if own_line else lines[begin][:column].strip()
        found.append((begin + 1, ' '.join(re.sub(r'^//+ ?', '', part).strip() for part in block), code))
    return found


def messages(text):
    """(line, text, line of code) of each string of a few words; adjacent literals are one string."""
    found, parts, begin, end = [], [], 0, 0
    lines = text.split('\n')

    def close():
        whole = ''.join(parts)
        line = line_of(text, begin)
        if parts and words(whole) >= WORDS_MIN and ' ' in whole.strip():
            alone = line > 1 and lines[line - 1].strip().startswith('"')
            code = lines[line - 2:line] if alone else [lines[line - 1]]
            found.append((line, whole, ' '.join(part.strip() for part in code)))
        parts.clear()
    for match in LITERALS.finditer(text):
        if not match.group(0).startswith('"'):
            continue
        if parts and text[end:match.start()].strip():
            close()
        if not parts:
            begin = match.start()
        parts.append(match.group(0)[1:-1])
        end = match.end()
    close()
    return found


def sentences(text):
    """(line, sentence, heading, sentence before) of each sentence of a Markdown page.

    The sentence before is of the same paragraph, list item or row of a table; '' if there is none.
    """
    found, heading, paragraph, begin, code = [], '', [], 0, False

    def close(before=''):
        for sentence in re.split(r'(?<=[.!?])\s+(?=[A-Z`*\[])', ' '.join(paragraph)):
            if words(sentence) >= WORDS_MIN:
                found.append((begin, sentence, heading, before))
            before = sentence or before
        paragraph.clear()
        return before
    for number, line in enumerate(text.split('\n'), 1):
        if line.strip().startswith('```'):
            code = not code
        stripped = line.strip()
        starts = re.match(r'([-*]|\d+\.)\s+|\|', stripped)
        if code or not stripped or stripped.startswith(('#', '```')) or starts:
            close()
        if stripped.startswith('#') and not code:
            heading = stripped.lstrip('# ')
        if code or not stripped or stripped.startswith(('#', '```')):
            continue
        if stripped.startswith('|'):
            begin, before = number, ''
            for cell in re.split(r'(?<!\\)\|', stripped):
                paragraph.append(cell.strip())
                before = close(before)
            continue
        if not paragraph:
            begin = number
        paragraph.append(stripped[starts.end():] if starts else stripped)
    close()
    return found


def draw(items, seed):
    """The items with the smallest digests, in the order of their places."""
    def digest(item):
        return hashlib.sha256(f'{seed} {item}'.encode()).hexdigest()
    return sorted(sorted(items, key=digest)[:DRAWN])


def git(*arguments):
    return subprocess.run(['git', *arguments], cwd=tidy.TOP, text=True, capture_output=True,
                          check=True).stdout


def collect():
    """{kind: [(path, line, text, place)]} of the programs' sources and all pages outside tests."""
    kinds = {'comments': [], 'messages': [], 'sentences of docs': []}
    for path in filter(None, git('ls-files').split('\n')):
        if path.startswith('tests/') or not path.endswith(('.cpp', '.hpp', '.md')):
            continue
        with open(os.path.join(tidy.TOP, path), encoding='utf-8') as file:
            text = file.read()
        if path.endswith('.md'):
            found = {'sentences of docs': sentences(text)}
        else:
            found = {'comments': comments(text), 'messages': messages(text)}
        for kind, items in found.items():
            kinds[kind] += [(path, *item) for item in items]
    return kinds


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('commit', metavar='COMMIT', nargs='?', default='HEAD')
    asked = parser.parse_args().commit
    try:
        commit = git('rev-parse', '--verify', '--quiet', f'{asked}^{{commit}}').strip()
    except subprocess.CalledProcessError:
        parser.error(f'{asked} is not a commit of this repository')
    seed = hashlib.sha256(commit.encode()).hexdigest()
    print(f'commit {commit}\nseed {seed}')
    print('Mark each item: [1] read once, [2] had to be read twice.')
    for kind, items in collect().items():
        drawn = draw(items, seed)
        print(f'\n== {kind}: {len(drawn)} of {len(items)}')
        for number, (path, line, text, place, *before) in enumerate(drawn, 1):
            print(f'\n{number}. [ ] {path}:{line}\n    {text}\n    at: {place or "(end of file)"}')
            if any(before):
                print(f'    after: {before[0]}')


if __name__ == '__main__':
    main()
