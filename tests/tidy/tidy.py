#!/usr/bin/env python3
"""The code base as data: sizes, arrows between folders, purity, names, format.

Run it from anywhere: tests/tidy/tidy.py prints FILE:LINE: what is wrong, and ends with 1 if
anything is. The limits and tables are the constants at the top of checks.py.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

import checks
import pages

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = re.compile(r'\.(cpp|hpp|py|sh|cmake|json|txt|yaml|sql|service)$|^[^.]+$')


def read_tree(names=TEXT):
    """Every tracked or new text file of ours that git does not ignore: {path: text}."""
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=TOP, text=True,
                            capture_output=True, check=True).stdout.split('\n')
    tree = {}
    for path in filter(None, listed):
        full = os.path.join(TOP, path)
        if names.search(os.path.basename(path)) and os.path.isfile(full):
            with open(full, encoding='utf-8', errors='replace') as file:
                tree[path] = file.read()
    return tree


def format_problems(paths):
    """What clang-format would change; its answers are one a file, in parallel."""
    if not shutil.which('clang-format'):
        return ['clang-format is not installed: run packaging/setup --tests']
    jobs = os.cpu_count() or 1

    def run(part):
        done = subprocess.run(['clang-format', '--dry-run', '-Werror', *part], cwd=TOP, text=True,
                              capture_output=True)
        wrong = sorted(set(re.findall(r'^(\S+?):\d+:\d+: error', done.stderr, re.M)))
        if done.returncode != 0 and not wrong:
            wrong = [done.stderr.strip()]
        return [f'{path}:1: not formatted; run: clang-format -i {path}' for path in wrong]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = [paths[n::jobs] for n in range(jobs)]
        return [line for found in pool.map(run, filter(None, parts)) for line in found]


def page_problems():
    """Pages that are hard to read or to find, or that are made from data and no longer show it."""
    tree = read_tree(re.compile(r'\.md$'))
    found = [*pages.widths(tree), *pages.unlinked(tree),
             *pages.links(tree, lambda path: os.path.exists(os.path.join(TOP, path)))]
    done = subprocess.run([sys.executable, os.path.join(TOP, 'packaging', 'job-docs'), '--check'],
                          text=True, capture_output=True)
    return ([f'{path}:{line}: {sentence}' for path, line, sentence in found]
            + (done.stdout or done.stderr).splitlines())


def main():
    tree = read_tree()
    problems = [f'{path}:{line}: {sentence}' for check in checks.ALL
                for path, line, sentence in check(tree)]
    problems += format_problems([path for path in tree if checks.is_cpp(path)])
    problems += page_problems()
    for problem in problems:
        print(problem)
    print(f'tidy: {len(tree)} files, {len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
