#!/usr/bin/env python3
"""Each check of tidy is fed what it must catch, and what it must let pass."""
import unittest

import checks
import sample

LIBRARY = {
    'common/CMakeLists.txt': 'roll_library(common LINK tl::expected)\n',
    'daemon/core/CMakeLists.txt': 'roll_library(core DEPS common spec_job)\n',
    'common/spec/job/CMakeLists.txt': 'roll_library(spec_job DEPS common)\n',
    'daemon/engine/CMakeLists.txt': 'roll_library(engine DEPS common core)\n',
}



class Tidy(unittest.TestCase):
    def caught(self, check, tree, times=1):
        found = list(check(tree))
        self.assertEqual(len(found), times, found)

    def passes(self, check, tree):
        self.caught(check, tree, 0)

    def test_a_long_table_of_a_family_that_trains_is_caught(self):
        self.caught(checks.family_tables, {'schemas/families/a.json': '"rope_types"' + 151 * '\n'})
        self.passes(checks.family_tables, {'schemas/families/a.json': '"rope_types"' + 150 * '\n'})
        self.passes(checks.family_tables, {'schemas/families/a.json': 151 * '\n'})

    def test_long_lines_and_files_are_caught(self):
        self.caught(checks.sizes, {'a.cpp': 'x' * 101})
        self.passes(checks.sizes, {'a.cpp': 'x' * 100})
        self.passes(checks.sizes, {'a.hpp': f'// clang-format off\n{"x" * 140}\n'})
        self.caught(checks.sizes, {'a.hpp': f'// clang-format off\n// clang-format on\n{"x" * 101}'})
        self.caught(checks.sizes, {'a.cpp': '\n' * 501})
        self.caught(checks.sizes, {'a.hpp': '\n' * 151})
        self.passes(checks.sizes, {'a.hpp': '\n' * 150, 'a.cpp': '\n' * 500})
        self.caught(checks.sizes, {'run': '#!/usr/bin/env bash\n' + '#' * 101})

    def test_long_functions_are_caught(self):
        body = '    x();\n' * 69
        self.caught(checks.function_sizes, {'a.cpp': f'namespace a {{\nint f(int n) {{\n{body}}}\n}}'})
        self.passes(checks.function_sizes, {'a.cpp': f'int f() {{\n{body[:-9]}}}\n'})
        self.caught(checks.function_sizes,
                    {'a.cpp': f'A::A(int n)\n    : n_(n) {{\n{body}}}\n'})
        self.caught(checks.function_sizes, {'a.cpp': f'TEST(A, B) {{\n{body}}}\n'})
        self.passes(checks.function_sizes,
                    {'a.cpp': 'const int table[] = {\n' + '    1,\n' * 90 + '};\n'})
        self.passes(checks.function_sizes,
                    {'a.cpp': 'struct A {\n' + '    int f() { return 1; }\n' * 90 + '};\n'})

    def test_includes_outside_deps_are_caught(self):
        tree = dict(LIBRARY, **{'common/a.hpp': '', 'daemon/engine/e.hpp': '', 'common/spec/job/s.hpp': ''})
        self.passes(checks.includes, dict(tree, **{'daemon/core/c.cpp': '#include "common/a.hpp"\n'}))
        for bad in ('#include "daemon/engine/e.hpp"\n', '#include "c.hpp"\n'):
            self.caught(checks.includes, dict(tree, **{'daemon/core/c.cpp': bad}))
        self.caught(checks.includes,
                    dict(tree, **{'daemon/engine/e.cpp': '#include "common/spec/job/s.hpp"\n'}))
        self.caught(checks.includes,
                    dict(tree, **{'daemon/core/rules/r.cpp': '#include "daemon/engine/e.hpp"\n'}))

    def test_modules_that_include_each_other_are_caught(self):
        def include(name):
            return f'#include "worker/train/{name}.hpp"\n'
        tree = {'worker/train/a.hpp': '', 'worker/train/b.hpp': include('a'),
                'worker/train/c.hpp': include('b'), 'worker/train/c.cpp': include('c') + include('a')}
        self.passes(checks.knots, tree)
        self.caught(checks.knots, dict(tree, **{'worker/train/a.cpp': include('a') + include('c')}))
        self.caught(checks.knots, dict(tree, **{'worker/train/a.cpp': include('a') + include('b')}))

    def test_programs_include_what_their_deps_name(self):
        tree = dict(LIBRARY, **{'daemon/CMakeLists.txt': 'roll_program(rolld DEPS engine)\n',
                                'daemon/engine/e.hpp': '', 'common/a.hpp': ''})
        self.passes(checks.includes,
                    dict(tree, **{'daemon/main.cpp': '#include "daemon/engine/e.hpp"\n'}))
        self.caught(checks.includes, dict(tree, **{'daemon/main.cpp': '#include "common/a.hpp"\n'}))

    def test_arrows_upward_and_sideways_are_caught(self):
        self.passes(checks.arrows, LIBRARY)
        for deps in ('engine', 'protocol', 'nonesuch'):
            self.caught(checks.arrows,
                        {'daemon/core/CMakeLists.txt': f'roll_library(core DEPS {deps})\n'})
        self.caught(checks.arrows, {'x/CMakeLists.txt': 'roll_library(newcomer DEPS common)\n'})

    def test_third_parties_stay_in_their_folders(self):
        self.caught(checks.third_parties, {'worker/plan/a.cpp': '#include <ATen/ATen.h>\n'})
        self.passes(checks.third_parties, {'worker/train/a.cpp': '#include <ATen/ATen.h>\n'})
        self.caught(checks.third_parties, {'daemon/query/a.cpp': '#include <sqlite3.h>\n'})

    def test_impurity_is_caught(self):
        for bad in ('#include <random>', '#include <nlohmann/json.hpp>', 'std::unordered_map<int, int> m;',
                    'auto t = std::chrono::steady_clock::now();', 'double share = 0;'):
            self.caught(checks.purity, {'daemon/core/a.cpp': bad})
        self.passes(checks.purity, {'worker/plan/a.cpp': 'double lr = 0;  // not the steady_clock'})
        self.caught(checks.purity, {'worker/agent/core/a.cpp': '#include <fstream>'})
        self.passes(checks.purity, {'worker/agent/core/a.cpp': '#include "common/json.hpp"'})
        self.passes(checks.purity, {'daemon/engine/a.cpp': 'double share = 0;'})

    def test_old_names_are_caught(self):
        self.caught(checks.old_names, {'daemon/core/a.cpp': 'std::set<Turn> turns;'})
        self.passes(checks.old_names, {'daemon/core/a.cpp': '// Turn\nint Turns;', 'daemon/engine/a.hpp': 'struct Turn;'})

    def test_co_await_with_a_temporary_that_is_destroyed_twice_is_caught(self):
        for bad in ('co_await f(Args{.a = 1});', 'co_await f({1, 2});',
                    'std::vector<int>{co_await a(), co_await b()};',
                    'co_await with([big]() -> Task<void> { go(); });',
                    'while (co_await f()) g();', 'co_await c() ? 1 : 2;', 'auto x = ok ? co_await a() : b();',
                    'ROLL_CO_TRY(const R r, co_await ask({1}));', 'if (co_await f(A{})) { g(); }'):
            found = list(checks.co_awaits({'a.cpp': f'Task<void> t() {{ {bad} }}'}))
            self.assertTrue(found, bad)
        for good in ('co_await f(Probe("{x}"));', 'if (auto r = co_await f(); r) { g({1}); }',
                     'while (co_await f(a + b)) { h(); }', 'ROLL_CO_TRY(const R r, co_await ask(q));',
                     'A a{1}; co_await f(a);', 'for (int i : co_await f()) { A b{i}; }',
                     'auto g = [a]() -> Task<void> { co_await f(a); }; co_await g();',
                     'try { co_await f(); } catch (...) { h({1}); }', 'x[i] = co_await f(y[i]);'):
            self.passes(checks.co_awaits, {'a.cpp': f'Task<void> t() {{ {good} }}'})

    def test_banned_names_are_caught(self):
        for bad in ('auto t = std::chrono::system_clock::now();', 'co_spawn(x, f, detached);',
                    'std::thread t(f);', 'int x = rand();', '// TO' + 'DO: later'):
            self.caught(checks.banned_names, {'daemon/query/a.cpp': bad})
        self.passes(checks.banned_names, {'common/time.cpp': 'std::chrono::system_clock::now();'})
        self.passes(checks.banned_names, {'worker/checkpoint/a.cpp': 'std::thread t(f);'})
        self.caught(checks.banned_names, {'a.hpp': '#pragma once\nusing namespace std;'})
        self.caught(checks.banned_names, {'a.hpp': 'int f();'})

    def test_family_names_in_code_are_caught(self):
        self.caught(checks.family_names, {'worker/train/a.cpp': 'if (family == "llama") f();'})
        for name in ('seed_oss', 'SmolLM2', 'yi', 'internlm2', 'phi3', 'is_phi'):
            self.caught(checks.family_names, {'common/spec/a.cpp': f'if (family == "{name}") f();'})
        self.passes(checks.family_names, {'cli/a.cpp': 'philox(random_seed, "graphics", yield);'})
        self.passes(checks.family_names, {'worker/train/a.cpp': '// as in llama\nf();'})
        self.passes(checks.family_names, {'tests/worker/a.cpp': 'load("llama");'})

    def test_headers_that_lean_on_other_includes_are_caught(self):
        vector = 'std::vector<int> a();'
        self.caught(checks.own_includes, {'a/a.hpp': vector})
        self.passes(checks.own_includes, {'a/a.hpp': '#include <vector>\n' + vector})
        self.passes(checks.own_includes, {'a/a.hpp': '// std::vector'})
        self.caught(checks.own_includes, {'a/a.hpp': '', 'a/a.cpp': '#include <map>\n#include "a/a.hpp"'})
        self.passes(checks.own_includes, {'a/a.hpp': '', 'a/a.cpp': '#include "a/a.hpp"\n#include <map>'})

    def test_comments_without_a_subject_are_counted(self):
        many = checks.OPENINGS_MAX * '// Of those.\n'
        self.passes(checks.comment_openings, {'a/a.cpp': many, 'tests/a.cpp': '// What\n'})
        for bad in ('    // Whose', '//What', '// Whether it is.'):
            self.caught(checks.comment_openings, {'a/a.cpp': many, 'a/b.hpp': bad})
        for good in ('// Offers', '// It is what', 'f();  // Of it', '"// Of it"'):
            self.passes(checks.comment_openings, {'a/a.cpp': many, 'a/b.hpp': good})

    def test_a_sample_has_comments_messages_and_sentences(self):
        code = ('// Adds\n// them.\nint add(int a,\n        int b);\nint c = 1;  // the first\n'
                'f("not // one", "no {} was\\n"\n  "found", R"(of no words at all)");  // NOLINT\n')
        self.assertEqual(sample.comments(code), [(1, 'Adds them.', 'int add(int a, int b);'),
                                                 (5, 'the first', 'int c = 1;')])
        self.assertEqual(sample.messages(code.replace('was', 'was it')),
                         [(6, 'no {} was it\\nfound', 'f("not // one", "no {} was it\\n"')])
        page = '# Head\nOne two three four. Five six\nseven eight.\n\n| z | a b c d | e |\n```\nf g h i\n```\n'
        self.assertEqual(sample.sentences(page), [(2, 'One two three four.', 'Head', ''),
                                                  (2, 'Five six seven eight.', 'Head', 'One two three four.'),
                                                  (5, 'a b c d', 'Head', 'z')])

    def test_dead_headers_are_caught(self):
        self.caught(checks.dead_headers, {'a/a.hpp': '', 'a/b.cpp': '#include "a/b.hpp"'})
        self.passes(checks.dead_headers, {'a/a.hpp': '', 'a/b.cpp': '#include "a/a.hpp"'})

    def test_sources_outside_targets_are_caught(self):
        self.passes(checks.one_target_a_file, dict(LIBRARY, **{'common/a.cpp': ''}))
        self.caught(checks.one_target_a_file, dict(LIBRARY, **{'daemon/core/rules/a.cpp': ''}))
        self.caught(checks.one_target_a_file, dict(LIBRARY, **{'common/main.cpp': ''}))
        test = {'tests/a/CMakeLists.txt': 'roll_test(a LABEL unit DEPS common)\n'}
        self.passes(checks.one_target_a_file, dict(test, **{'tests/a/a_test.cpp': ''}))
        many = {'tests/a/CMakeLists.txt': 'roll_tests(all LABEL unit TESTS a b)\n'}
        self.passes(checks.one_target_a_file, dict(many, **{'tests/a/b_test.cpp': ''}))
        self.caught(checks.one_target_a_file, dict(many, **{'tests/a/c_test.cpp': ''}))
        folders = {'worker/train/CMakeLists.txt': 'roll_library(train OWN_PCH FOLDERS ops DEPS plan)\n'}
        self.passes(checks.one_target_a_file, dict(folders, **{'worker/train/ops/a.cpp': ''}))
        self.caught(checks.one_target_a_file, dict(folders, **{'worker/train/other/a.cpp': ''}))
        self.caught(checks.one_target_a_file, dict(test, **{'tests/a/b_test.cpp': ''}))
        listed = {'tests/a/CMakeLists.txt': 'roll_test(all SOURCES a_test.cpp b_test.cpp)\n'}
        self.passes(checks.one_target_a_file, dict(listed, **{'tests/a/b_test.cpp': ''}))

    def test_local_names_of_two_files_are_caught(self):
        source = 'namespace {{\n{}\n}}  // namespace\n'
        tree = {'daemon/a/CMakeLists.txt': 'roll_library(a)', 'daemon/a/y.cpp': '',
                'daemon/b/CMakeLists.txt': 'roll_library(b)'}
        for one, other in (('int size_of(int a) {', 'long size_of(long a,'),
                           ('constexpr int kMost = 3;', 'constexpr auto kMost = 4s;'),
                           ('struct Work {', 'class Work final {')):
            tree['daemon/a/x.cpp'] = source.format(one)
            self.caught(checks.local_names_once, tree | {'daemon/a/y.cpp': source.format(other)})
            self.passes(checks.local_names_once, tree | {'daemon/b/y.cpp': source.format(other)})
            self.passes(checks.local_names_once, tree | {'daemon/a/y.cpp': '    ' + other})

    def test_package_hosts_are_caught(self):
        self.caught(checks.package_hosts, {'packaging/setup': 'url=http' + '://deb.example.org/debian/pool\n'})
        self.caught(checks.package_hosts, {'.ci/run': 'pip install --index' + '-url x\n'})
        self.passes(checks.package_hosts, {'packaging/setup': 'apt-get install libzmq3-dev\n'})

    def test_mutations_of_code_that_is_gone_or_ambiguous_are_caught(self):
        worlds = "import os\nTOP = os.getcwd()\nMUTATIONS = {'core/a.cpp': [('x();', '', 'no x')]}\n"
        rules = "A = 'daemon/core/a.cpp'\nMUTANTS = [(1, A, 'x();', '', 'a_test', '*')]\n"
        for text in (worlds, rules):
            tree = {'tests/mutations.py': text, 'daemon/core/a.cpp': 'x();'}
            self.passes(checks.mutations, tree)
            self.caught(checks.mutations, dict(tree, **{'daemon/core/a.cpp': 'y();'}))
            self.caught(checks.mutations, dict(tree, **{'daemon/core/a.cpp': 'x(); x();'}))

    def test_files_that_do_not_parse_are_caught(self):
        self.caught(checks.parses, {'a.json': '{,}'})
        self.caught(checks.parses, {'a.py': 'def f(:'})
        self.caught(checks.parses, {'run': '#!/usr/bin/env bash\nif true\n'})
        self.passes(checks.parses, {'a.json': '{}', 'a.py': 'f()', 'run': '#!/bin/bash\ntrue\n'})


if __name__ == '__main__':
    unittest.main()
