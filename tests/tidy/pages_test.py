#!/usr/bin/env python3
"""Each check of the pages is fed what it must catch, and what it must let pass."""
import unittest

import pages


class Pages(unittest.TestCase):
    def test_long_lines_are_caught(self):
        self.assertEqual(len(list(pages.widths({'a.md': 'x' * 101}))), 1)
        long_code = '```\n' + 'x' * 200 + '\n```'
        for text in ('x' * 100, '| ' + 'x' * 200, 'https://' + 'x' * 200, long_code):
            self.assertEqual(list(pages.widths({'a.md': text})), [])

    def test_dead_links_are_caught(self):
        tree = {'docs/a.md': '[b](b.md#the-part)', 'docs/b.md': '# The `part`\n'}
        self.assertEqual(list(pages.links(tree, lambda path: path in tree)), [])
        for text in ('[c](c.md)', '[b](b.md#no-part)', '[here](#no-part)'):
            found = list(pages.links(dict(tree, **{'docs/a.md': text}), lambda path: path in tree))
            self.assertEqual(len(found), 1, text)
        commented = {'docs/b.md': '```\n# no heading\n```\n[b](#no-heading)'}
        self.assertEqual(len(list(pages.links(commented, lambda path: True))), 1)

    def test_pages_that_nothing_links_are_caught(self):
        index = {'docs/README.md': '[a](a.md) [t](../tests/README.md)'}
        self.assertEqual(list(pages.unlinked(dict(index, **{'docs/a.md': '', 'tests/README.md': ''}))), [])
        self.assertEqual(len(list(pages.unlinked(dict(index, **{'docs/b.md': ''})))), 1)


if __name__ == '__main__':
    unittest.main()
