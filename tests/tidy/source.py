"""C++ sources as tidy sees them: comments and literals blanked, statements and functions found."""
import re

LITERALS = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"([^()\\ ]{0,16})\(.*?\)\1"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S)


def blank(text, keep_strings=False):
    """The same text, same length and lines, with comments (and strings) as spaces."""
    def spaces(match):
        found = match.group(0)
        if keep_strings and not found.startswith(('//', '/*')):
            return found
        return re.sub(r'[^\n]', ' ', found)
    return LITERALS.sub(spaces, text)


def line_of(text, position):
    return text.count('\n', 0, position) + 1


CONTAINER = re.compile(r'\b(namespace|class|struct|union|enum|extern)\b[^()]*$')
BLOCK_BEFORE = re.compile(
    r'(\)|\b(else|do|try|const|noexcept|override|final|mutable)|->\s*[\w:<>,\s*&]+|[;{}]|^)\s*$')


def functions(code):
    """(first line, last line) of every function body in blanked code."""
    found, stack, start = [], [], 0
    for match in re.finditer(r'[{};]', code):
        char, at = match.group(0), match.start()
        in_function = any(kind == 'function' for kind, _ in stack)
        if char == '{':
            head = code[start:at]
            if in_function:
                kind = 'inside'
            elif CONTAINER.search(head.strip()) and '=' not in head:
                kind = 'container'
            elif '(' in head and not re.search(r'=\s*$', head):
                kind = 'function'
            else:
                kind = 'data'
            stack.append((kind, start + len(head) - len(head.lstrip())))
        elif char == '}':
            if stack:
                kind, begun = stack.pop()
                if kind == 'function':
                    found.append((line_of(code, begun), line_of(code, at)))
        if not any(kind in ('function', 'data') for kind, _ in stack):
            start = at + 1
    return found


def expression_around(code, at):
    """(start, end) of the full expression around a position; None where braces are open in it."""
    depth, start = 0, at
    while start > 0:
        char = code[start - 1]
        if char in ')]}':
            if char == '}' and depth == 0:
                break
            depth += 1
        elif char in '([':
            if depth == 0 and re.search(r'\b(if|while|for|switch)\s*$', code[:start - 1][-20:]):
                break
            depth = max(0, depth - 1)
        elif char == '{':
            if depth == 0:
                if BLOCK_BEFORE.search(code[max(0, start - 200):start - 1]):
                    break
                return None
            depth -= 1
        elif char == ';' and depth == 0:
            break
        start -= 1
    return start, _end_of_expression(code, start)


def _end_of_expression(code, start):
    depth, end = 0, start
    while end < len(code):
        char = code[end]
        if char in '([{':
            depth += 1
        elif char in ')]}':
            depth -= 1
            if depth < 0:
                break
        elif char == ';' and depth == 0:
            break
        end += 1
    return end
