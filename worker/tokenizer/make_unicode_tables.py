#!/usr/bin/env python3
"""Write unicode_categories.cpp and unicode_compositions.cpp beside this file.

    make_unicode_tables.py categories    (pip install unicodedata2==16.0.0)
    make_unicode_tables.py compositions  (the same, and perl)

The tokenizers package 0.23 knows Unicode 16 in its regular expressions and Unicode 9 in its
normalizers, and ids depend on both. What Unicode 9 has not is left out of the compositions: perl
knows the ages.
"""
import subprocess
import sys
from pathlib import Path

import unicodedata2 as ucd

CATEGORIES = ('Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp '
              'Cc Cf Cs Co Cn').split()
END = 0x110000


def table(kind, name, values):
    lines, line = [], '   '
    for value in values:
        word = f' {value:#x},'
        if len(line) + len(word) > 138:
            lines.append(line)
            line = '   '
        line += word
    body = '\n'.join(lines + [line])
    return (f'// clang-format off\nconst {kind} {name}[] = {{\n{body}\n}};\n'
            f'// clang-format on\nconst std::size_t {name}_size = std::size({name});\n')


def write(name, text):
    head = (f'// Written by make_unicode_tables.py from Unicode {ucd.unidata_version};\n'
            f'// what a number means stands in unicode_tables.hpp.\n'
            '#include "worker/tokenizer/unicode_tables.hpp"\n\n#include <iterator>\n\n'
            'namespace roll::tokenizer {\n\n')
    path = Path(__file__).with_name(name)
    path.write_text(head + text + '\n}  // namespace roll::tokenizer\n')


def runs(value_of):
    previous = None
    for code in range(END):
        value = value_of(code)
        if value != previous:
            yield code << 8 | value
        previous = value


def categories():
    yield table('std::uint32_t', 'kCategoryRuns',
                runs(lambda code: CATEGORIES.index(ucd.category(chr(code)))))


def in_unicode_9():
    script = 'print join "\n", grep {chr($_) =~ /\p{Present_In=9.0}/} (0..0xD7FF, 0xE000..0x10FFFF)'
    return set(map(int, subprocess.check_output(['perl', '-e', script], text=True).split()))


def compositions():
    known = in_unicode_9()
    yield table('std::uint32_t', 'kCombiningRuns',
                runs(lambda code: ucd.combining(chr(code)) if code in known else 0))
    rows = []
    for code in range(END):
        parts = ucd.decomposition(chr(code)).split()
        if code in known and parts and not parts[0].startswith('<'):
            first, second = int(parts[0], 16), int(parts[1], 16) if parts[1:] else 0
            back = ucd.normalize('NFC', chr(code)) == chr(code)
            rows.append(back << 63 | code << 42 | first << 21 | second)
    yield '\n' + table('std::uint64_t', 'kDecompositions', rows)


if __name__ == '__main__':
    what = {'categories': categories, 'compositions': compositions}[sys.argv[1]]
    write(f'unicode_{what.__name__}.cpp', ''.join(what()))
