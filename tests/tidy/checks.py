"""The checks of tests/tidy, each a function of the tree that yields (file, line, sentence).

The tree is a dict of path -> text, so that tidy_test.py can feed each check a bad snippet.
"""
import ast
import json
import os
import re
import subprocess

from source import blank, expression_around, functions, line_of

# A folder's layer (style: module map). A folder includes from lower layers only.
LAYERS = {
    'common': 0, 'schemas': 0,
    'spec_schema': 0.6, 'spec_job': 0.7, 'spec_train': 0.8, 'spec_check': 0.9,
    'tensor': 1, 'yaml': 1, 'hub': 1.1,
    'protocol': 2, 'plan': 2, 'families': 2, 'formats': 2, 'tokenizer': 1.5, 'chat': 1.5, 'parquet': 1.5, 'corpus': 2,
    'layout': 2.2, 'io': 2.3, 'slurm': 2.6,  # io's client speaks the protocol
    'files': 2.9, 'ledger': 3, 'engine': 3, 'gateway': 3, 'query': 3, 'checkpoint': 2.2, 'convert': 3,
    'core_state': 1.1, 'core_facts': 1.2, 'core_apply': 1.3, 'core_placement': 1.3,
    'core_decide': 1.4, 'core_allocation': 1.4, 'core_rules': 1.5, 'core': 2,
    'agent_core': 2.5, 'agent_host': 2.5, 'agent_logs': 2.5, 'agent_process': 2.7, 'agent': 3,
    'agent_steps': 2.8,
    'convert_checkpoint': 2.3, 'convert_plan': 2.4, 'convert_read': 2.5, 'convert_write': 2.5,
    'convert_adapter': 2.6, 'convert_command': 3.5, 'dispatch': 3, 'pilots': 3, 'secrets': 3, 'sweeps': 3, 'notify': 3,
    'config': 2.5, 'tls': 2.5, 'tokens': 3, 'api': 3.5, 'server': 4, 'http': 3,
    'cli_text': 3.1, 'cli_client': 3.2, 'cli_foreign': 3.1, 'cli_job': 3.3, 'cli_slurm': 3.4, 'cli_submit': 3.6,
    'cli_show': 3.5, 'cli_top': 3.6, 'cli_commands': 3.8, 'cli': 4,
    'train_process': 3.1, 'train_simd': 3.1,
    'train_objective': 3.1, 'train_comm': 3.2, 'train_ops': 3.2, 'train_cpu': 3.3,
    'train_cuda': 3.3, 'train_model': 3.3, 'train_optim': 3.4, 'train_pipeline': 3.5,
    'train_prove': 3.8, 'train_search': 3.6, 'train_data': 3.5, 'train_report': 3.6, 'train_save': 3.7, 'train_job': 4,
}
# Folders that decide: no clock, I/O, threads, randomness or iteration order.
PURE = ('daemon/core/', 'worker/agent/core/', 'worker/layout/', 'worker/plan/')
PURE_INCLUDES = re.compile(
    r'#include [<"](iostream|fstream|cstdio|thread|mutex|atomic|future|condition_variable|random'
    r'|ctime|unordered_map|unordered_set|unistd\.h|fcntl\.h|sys/|boost/|zmq|sqlite3|spdlog/'
    r'|torch/|ATen/|c10/|common/files\.hpp|common/log\.hpp|common/io/)')
PURE_JSON = re.compile(r'#include [<"](nlohmann/|common/json\.hpp)')
PARSES_JSON = ('worker/agent/core/',)  # the ranks' reports and the job's document
PURE_NAMES = re.compile(
    r'\b(unordered_\w+|system_clock|steady_clock|high_resolution_clock|rand|getenv|printf|cout|cerr'
    r'|mt19937\w*|random_device|this_thread|mutex|atomic)\b')
FLOATING = re.compile(r'\b(float|double)\b')
# Folders without knots: no module (x.hpp with x.cpp) there includes itself through other modules.
KNOT_FREE = ('',)
# Names that mean another thing elsewhere, and the folders that gave them up.
OLD_NAMES = [
    ('daemon/core/', re.compile(r'\b(Turn|Line|Rank|Room|Free|Worth|shunned\w*|meaning_of)\b')),
    ('worker/agent/', re.compile(r'\b(Bound|beats?|Beat(Now|Soon))\b')),
]
# Third parties and the folders that may include them.
THIRD_PARTIES = [
    (re.compile(r'#include <(torch|ATen|c10|caffe2|gloo)/'), ('worker/train/',)),
    (re.compile(r'#include [<"]sqlite3\.h'), ('daemon/ledger/',)),
    (re.compile(r'#include [<"]sodium'),
     ('common/base64.cpp', 'common/io/sha256.cpp', 'daemon/secrets/', 'daemon/tokens/', 'daemon/notify/')),
    (re.compile(r'#include <(openssl|boost/asio/ssl|boost/beast/ssl)'),
     ('daemon/http/', 'daemon/notify/', 'daemon/tls/')),
    (re.compile(r'#include [<"]zmq'), ('common/io/', 'daemon/gateway/', 'worker/agent/', 'cli/')),
]
THREADS_IN = ('cli/top/', 'daemon/files/', 'daemon/gateway/', 'daemon/http/', 'daemon/pilots/',
              'daemon/server/service_notice', 'daemon/sweeps/',
              'worker/agent/', 'worker/checkpoint/', 'worker/convert/', 'worker/train/', 'tests/')
# Short ones stand alone: a seed is no Seed-OSS, and Philox no Phi.
FAMILIES = re.compile(r'(llama|qwen|mistral|mixtral|gemma|deepseek|gpt(?!q)|glm|internlm|smollm|seed_?oss'
                      r'|(?<![a-z])phi(?!lox)|(?<![a-z])yi(?![a-z]))', re.I)
FAMILIES_NOT_IN = ('worker/', 'common/', 'cli/', 'daemon/')
FAMILIES_ALLOWED = ('worker/chat/conversation',)  # ShareGPT is a form of records
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)

# Names of the headers that the precompiled header would hide the lack of.
STANDARD = {
    'algorithm': r'std::(sort|min|max|find|find_if|any_of|all_of|ranges::\w+)\b', 'array': r'std::array\b',
    'chrono': r'std::chrono\b', 'cstdint': r'std::u?int\d+_t\b', 'filesystem': r'std::filesystem\b',
    'functional': r'std::function\b', 'map': r'std::map\b', 'memory': r'std::(unique|shared)_ptr\b',
    'optional': r'std::optional\b', 'set': r'std::set\b', 'span': r'std::span\b', 'string': r'std::string\b',
    'string_view': r'std::string_view\b', 'variant': r'std::variant\b', 'vector': r'std::vector\b',
    'tl/expected.hpp': r'\btl::', 'nlohmann/json.hpp': r'\bnlohmann::', 'fmt/format.h': r'\bfmt::',
}

HOST = re.compile(r'https?://[^\s"]+|--(extra-)?index-url\b')

OPENING = re.compile(r'^[ \t]*//[ \t]*(Of|What|Who|Whose|Whom|Where|Whether|Those|That)\b', re.M)
OPENINGS_MAX = 20  # comment lines outside tests

LINE_MAX, FILE_MAX, HEADER_MAX, FUNCTION_MAX = 100, 500, 150, 70
TABLE_LINE_MAX = 140  # between clang-format off and on: one line a kind
SCRIPT_LINE_MAX = 120  # nothing formats scripts
UNBREAKABLE = re.compile(r'\b[0-9a-f]{64}\b|R"')  # a digest, a raw string


def is_cpp(path):
    return path.endswith(('.cpp', '.hpp'))


def is_script(path, text):
    return text.startswith('#!') and 'bash' in text.split('\n', 1)[0] or path.endswith('.sh')


def hits(path, text, pattern, sentence):
    for match in pattern.finditer(text):
        yield path, line_of(text, match.start()), sentence.format(match.group(0).strip())


def sizes(tree):
    for path, text in tree.items():
        if not (is_cpp(path) or path.endswith('.py') or is_script(path, text)):
            continue
        lines = text.split('\n')
        limit = HEADER_MAX if path.endswith('.hpp') and not path.startswith('tests/') else FILE_MAX
        if len(lines) - 1 > limit:
            yield path, limit, f'{len(lines) - 1} lines; at most {limit}: split it by purpose'
        columns = SCRIPT_LINE_MAX if path.endswith('.py') else LINE_MAX
        for number, line in enumerate(lines, 1):
            if '// clang-format o' in line:
                columns = TABLE_LINE_MAX if 'clang-format off' in line else LINE_MAX
            if len(line) > columns and not UNBREAKABLE.search(line):
                yield path, number, f'{len(line)} columns; at most {columns}'


def function_sizes(tree):
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        for first, last in functions(blank(text)):
            if last - first + 1 > FUNCTION_MAX:
                yield path, first, (f'a function of {last - first + 1} lines; '
                                    f'at most {FUNCTION_MAX}: give its parts names')


CALL = re.compile(r'\broll_(library|program)\(\s*(\S+)\s*([^)]*)\)')
KEYWORDS = ('DEPS', 'LINK', 'FOLDERS', 'OWN_PCH')


def folder_targets(tree):
    """{(folder, 'library' | 'program'): (name, [direct DEPS])} as the CMakeLists.txt files say."""
    targets = {}
    for path, text in tree.items():
        if os.path.basename(path) != 'CMakeLists.txt' or path.startswith('tests/'):
            continue
        for kind, name, arguments in CALL.findall(re.sub(r'#.*', '', text)):
            lists, key = {}, None
            for word in arguments.split():
                if word in KEYWORDS:
                    key = word
                else:
                    lists.setdefault(key, []).append(word)
            folder = os.path.dirname(path)
            for part in [folder] + [f'{folder}/{inner}' for inner in lists.get('FOLDERS', [])]:
                targets[part, kind] = (name, lists.get('DEPS', []))
    return targets


def library_of(path, targets):
    """The name of the library whose folder, or whose folder's parent, holds the file; or None."""
    folder = os.path.dirname(path)
    while folder:
        if (folder, 'library') in targets:
            return targets[folder, 'library'][0]
        folder = os.path.dirname(folder)
    return None


def arrows(tree):
    targets = folder_targets(tree)
    for (folder, kind), (name, deps) in targets.items():
        layer = LAYERS.get(name) if kind == 'library' else 5
        where = folder + '/CMakeLists.txt'
        if layer is None:
            yield where, 1, f'{name} has no layer: give it one in tests/tidy/checks.py'
            continue
        for dep in deps:
            if dep not in LAYERS:
                yield where, 1, f'DEPS {dep}: no such folder'
            elif LAYERS[dep] >= layer and not (kind == 'program' and dep == name):
                yield where, 1, (f'{name} (layer {layer}) may not depend on {dep} (layer '
                                 f'{LAYERS[dep]}): only on lower layers')


def includes(tree):
    targets = folder_targets(tree)
    for path, text in tree.items():
        if not is_cpp(path):
            continue
        folder = os.path.dirname(path)
        own = library_of(path, targets)
        allowed = {own} | set(next((d for n, d in targets.values() if n == own), []))
        if os.path.basename(path) == 'main.cpp' and (folder, 'program') in targets:
            allowed |= set(targets[folder, 'program'][1])
        for match in INCLUDE.finditer(text):
            line, header = line_of(text, match.start()), match.group(1)
            if header not in tree:
                if '/' not in header:
                    yield path, line, f'"{header}": includes are from the repository root'
                continue
            target = library_of(header, targets)
            if not path.startswith('tests/') and target not in allowed:
                yield path, line, (f'"{header}" is of {target}, which the DEPS of '
                                   f'{folder}/CMakeLists.txt do not name')


def knots(tree):
    """A module that includes itself through others cannot be read, tested or moved alone."""
    graph = {}
    for path, text in tree.items():
        if is_cpp(path) and not path.startswith('tests/'):
            module = os.path.splitext(path)[0]
            graph.setdefault(module, set()).update(
                {os.path.splitext(header)[0] for header in INCLUDE.findall(text)} - {module})
    reached = {}
    for start in graph:
        found, waiting = set(), [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - found
            found |= new
            waiting.extend(new)
        reached[start] = found
    for module in sorted(graph):
        knot = {other for other in reached[module] if module in reached.get(other, ())}
        if knot and module == min(knot) and any(one.startswith(KNOT_FREE) for one in knot):
            header = module + '.hpp'
            yield header if header in tree else module + '.cpp', 1, (
                'these modules include each other in a circle: ' + ', '.join(sorted(knot)))


def own_includes(tree):
    """Headers compile alone: each includes the standard headers of the names it uses, and its
    .cpp includes it first. A precompiled header would hide the lack of either."""
    for path, text in tree.items():
        if not path.endswith('.hpp') or path.startswith('tests/'):
            continue
        code = blank(text)
        included = set(re.findall(r'^#include <([^>]+)>', text, re.M))
        for header, names in STANDARD.items():
            used = re.search(names, code)
            if used and header not in included:
                yield (path, line_of(code, used.start()),
                       f'{used.group(0)} needs #include <{header}>')
        first = re.search(r'^#include [<"]([^>"]+)', tree.get(path[:-3] + 'cpp', ''), re.M)
        if first and first.group(1) != path:
            yield path[:-3] + 'cpp', 1, f'includes {first.group(1)} before its own "{path}"'


def third_parties(tree):
    for path, text in tree.items():
        if not is_cpp(path) or path.startswith('tests/'):
            continue
        for pattern, folders in THIRD_PARTIES:
            if not path.startswith(folders):
                yield from hits(path, text, pattern, '{} belongs in ' + ', '.join(folders))


def purity(tree):
    for path, text in tree.items():
        if not is_cpp(path) or not path.startswith(PURE):
            continue
        code = blank(text)
        yield from hits(path, text, PURE_INCLUDES, '{} in a pure folder (style 3.5)')
        if not path.startswith(PARSES_JSON):
            yield from hits(path, text, PURE_JSON, '{} in a pure folder (style 3.5)')
        yield from hits(path, code, PURE_NAMES, '{} in a pure folder (style 3.5)')
        if path.startswith('daemon/core/'):
            yield from hits(path, code, FLOATING, '{} in daemon/core: decisions are integer')


LOOP = re.compile(r'\b(while|for)\s*\($')
UNBRACED = re.compile(r'\)\s*[^{\s]')


def co_awaits(tree):
    """Style 3.4: g++ 12 destroys such expressions' lambdas, aggregates and ?: temporaries twice."""
    for path, text in tree.items():
        if not is_cpp(path) or 'co_await' not in text:
            continue
        code = blank(text)
        for match in re.finditer(r'\bco_await\b', code):
            around = expression_around(code, match.start())
            expression = code[slice(*around)] if around else '{'
            what = ('braces' if '{' in expression else
                    'a lambda' if re.search(r'(^|[(,=\s])\[[^\]]*\]\s*[({]', expression) else
                    '?:' if '?' in expression else None)
            if what:
                yield path, line_of(code, match.start()), (
                    f'{what} in the expression of a co_await: name it on the line above')
            elif UNBRACED.match(code, around[1]) and LOOP.search(code[:around[0]]):
                yield path, line_of(code, match.start()), (
                    'a loop on co_await without braces: g++ 12 makes it end in a trap')


def banned_names(tree):
    def only(pattern, sentence, allowed):
        for path, text in tree.items():
            if is_cpp(path) and not path.startswith(allowed):
                yield from hits(path, blank(text), pattern, sentence)
    yield from only(re.compile(r'system_clock::now'), '{}: take a Time, or ask roll::Clock',
                    ('common/time.cpp',))
    yield from only(re.compile(r'\bdetached\b'), '{}: spawn() aborts on what escapes', ('-',))
    yield from only(re.compile(r'\bstd::(thread|jthread|async)\b'), '{} is not for this folder',
                    THREADS_IN)
    yield from only(re.compile(r'\bs?rand\('), '{}: random numbers are keyed', ('-',))
    for path, text in tree.items():
        if path.startswith('tests/tidy/') or path.endswith(('.json', '.md')):
            continue
        yield from hits(path, text, re.compile(r'\b(TODO|FIXME|XXX|HACK)\b'),
                        '{}: finish it, or file an issue and leave no mark')
    for path, text in tree.items():
        if path.endswith('.hpp'):
            code = blank(text)
            if not path.startswith('tests/'):
                yield from hits(path, code, re.compile(r'\busing namespace\b'), '{} in a header')
            if '#pragma once' not in code:
                yield path, 1, 'a header without #pragma once'


def old_names(tree):
    for path, text in tree.items():
        for folder, pattern in OLD_NAMES:
            if is_cpp(path) and path.startswith(folder):
                yield from hits(path, blank(text), pattern, '{}: means another thing elsewhere')


def comment_openings(tree):
    """A comment begins with a subject or a verb; few begin with a word that is neither."""
    found = {}
    for path, text in tree.items():
        if is_cpp(path) and not path.startswith('tests/'):
            lines = [line_of(text, match.start(1)) for match in OPENING.finditer(text)]
            found.update({path: lines} if lines else {})
    total = sum(map(len, found.values()))
    if total > OPENINGS_MAX:
        path = max(found, key=lambda path: len(found[path]))
        yield path, found[path][0], (
            f'{total} comment lines begin with Of, What, Who, Whose, Whom, Where, Whether, Those '
            f'or That, {len(found[path])} of them here; at most {OPENINGS_MAX}: use a verb')


def family_tables(tree):
    for path, text in tree.items():
        trains = path.startswith('schemas/families/') and '"rope_types"' in text
        if trains and text.count('\n') > 150:
            yield path, 150, 'a family that trains is a table of at most 150 lines'


def family_names(tree):
    for path, text in tree.items():
        if (is_cpp(path) and path.startswith(FAMILIES_NOT_IN)
                and not path.startswith(FAMILIES_ALLOWED)):
            yield from hits(path, blank(text, keep_strings=True), FAMILIES,
                            '{}: what differs between families is data in schemas/families')


def dead_headers(tree):
    included = {header for path, text in tree.items() if is_cpp(path)
                for header in INCLUDE.findall(text)}
    for path in tree:
        if path.endswith('.hpp') and path not in included:
            yield path, 1, 'no file includes this header: delete it'


def one_target_a_file(tree):
    targets = folder_targets(tree)
    ignored = r'#.*|set_source_files_properties\([^)]*\)'
    lists = {path: re.sub(ignored, '', text) for path, text in tree.items()
             if os.path.basename(path) == 'CMakeLists.txt'}
    for path in tree:
        if not path.endswith('.cpp'):
            continue
        folder, name = os.path.split(path)
        owners = 0
        for where, text in lists.items():
            base = os.path.dirname(where)
            if path.startswith(base + '/') or not base:
                inside = path[len(base) + 1 if base else 0:]
                owners += len(re.findall(rf'(?<![\w/]){re.escape(inside)}(?![\w.])', text)) > 0
        if name == 'main.cpp':
            owners += (folder, 'program') in targets
        elif name.endswith('_test.cpp'):
            test = re.escape(name[:-9])
            call = rf'roll_test\({test}\b(?![^)]*SOURCES)|roll_tests\([^)]*\bTESTS\b[^)]*\b{test}\b'
            owners += bool(re.search(call, lists.get(folder + '/CMakeLists.txt', '')))
        else:
            owners += (folder, 'library') in targets
        if owners != 1:
            yield path, 1, f'in {owners} targets; each .cpp is in exactly one'


LOCAL_NAME = tuple(re.compile(pattern) for pattern in (
    r'^(?:struct|class|enum class) (\w+)\b(?!;)', r'^using (\w+) =',
    r'^(?:inline )?(?:constexpr|const) [^(]*?(\w+)(?:\[\w*\])* ?[={;]',
    r'^(?!\s|using |template|return )[\w:<>,&*\s]*?[\s&*>](\w+)\('))


def local_names(text):
    """(line, name) of what a source defines at the left margin of its unnamed namespaces."""
    inside = False
    for number, line in enumerate(text.split('\n'), 1):
        if line.startswith(('namespace {', '}  // namespace')):
            inside = line == 'namespace {'
        elif inside:
            found = filter(None, (pattern.match(line) for pattern in LOCAL_NAME))
            yield from ((number, match[1]) for match in list(found)[:1])


def local_names_once(tree):
    """Files of a library are compiled together, so that one name would be two overloads."""
    targets, seen = folder_targets(tree), {}
    for path in sorted(tree):
        library = library_of(path, targets) if path.endswith('.cpp') else None
        if library is None or path.endswith('/main.cpp'):
            continue
        for line, name in local_names(tree[path]):
            first = seen.setdefault((library, name), path)
            if first != path:
                yield path, line, f'{name} is also a name in {first}, of the same library'


def package_hosts(tree):
    """A site may have a mirror: the configuration of apt and pip names the hosts, no file here."""
    for path, text in tree.items():
        builds = os.path.basename(path) in ('CMakeLists.txt', 'run')
        if builds or path.startswith(('packaging/', '.ci/')):
            yield from hits(path, text, HOST, '{}: leave the host to apt and pip')


def quoted_code(path, text):
    """The (file, code) of each mutation in a list of mutations."""
    known = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            try:
                exec(compile(ast.Module([node], []), path, 'exec'), {}, known)
            except NameError:
                continue  # computed, such as a path
    for file, mutations in known.get('MUTATIONS', {}).items():
        top = '' if file.startswith(('common/', 'worker/')) else 'daemon/'
        yield from ((top + file, mutation[0]) for mutation in mutations)
    yield from ((file, code) for _, file, code, *_ in known.get('MUTANTS', []))


def mutations(tree):
    """The mutants take minutes to build: code that is gone or ambiguous is found here."""
    for path in [path for path in tree if path.endswith('mutations.py')]:
        for file, code in quoted_code(path, tree[path]):
            count = tree.get(file, '').count(code)
            if count != 1:
                yield path, 1, f'{file} has this code {count} times: {code.strip()}'


def parses(tree):
    for path, text in tree.items():
        try:
            if path.endswith('.json'):
                json.loads(text)
            elif path.endswith('.py') or text.startswith('#!/usr/bin/env python3'):
                ast.parse(text)
            elif is_script(path, text):
                done = subprocess.run(['bash', '-n'], input=text, text=True, capture_output=True)
                if done.returncode != 0:
                    yield path, 1, done.stderr.strip()
        except (ValueError, SyntaxError) as error:
            yield path, getattr(error, 'lineno', 1) or 1, str(error)


ALL = [sizes, function_sizes, arrows, includes, knots, own_includes, third_parties, purity,
       co_awaits, banned_names, old_names, family_names, family_tables, comment_openings,
       dead_headers, one_target_a_file, local_names_once, package_hosts, mutations,
       parses]
