"""The Markdown pages as data: width of lines, links, anchors, and that docs/README.md links each."""
import os
import re

WIDTH = 100
INDEX = 'docs/README.md'
LINK = re.compile(r'\]\(([^()\s#]*)(#[^()\s]*)?\)')


def prose(text):
    """(number, line) of each line outside code blocks."""
    code = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.lstrip().startswith('```'):
            code = not code
        elif not code:
            yield number, line


def anchors(text):
    """Anchors that Markdown makes of the page's headings."""
    headings = [line.lstrip('# ') for _, line in prose(text) if line.startswith('#')]
    return {re.sub(r'[^\w\- ]', '', heading).strip().lower().replace(' ', '-') for heading in headings}


def target(path, link):
    return os.path.normpath(os.path.join(os.path.dirname(path), link)) if link else path


def widths(tree):
    for path, text in tree.items():
        for number, line in prose(text):
            if len(line) > WIDTH and not line.startswith('|') and '://' not in line:
                yield path, number, f'{len(line)} columns; at most {WIDTH} outside tables and addresses'


def links(tree, exists):
    for path, text in tree.items():
        for number, line in prose(text):
            for link, anchor in LINK.findall(line):
                if '://' in link:
                    continue
                other = target(path, link)
                if not exists(other):
                    yield path, number, f'{link}: no such file'
                elif anchor and other in tree and anchor[1:] not in anchors(tree[other]):
                    yield path, number, f'{link}{anchor}: the page has no such heading'


def unlinked(tree):
    linked = {target(INDEX, link) for link, _ in LINK.findall(tree.get(INDEX, ''))}
    for path in tree:
        if path != INDEX and path not in linked:
            yield path, 1, f'{INDEX} does not link this page'
