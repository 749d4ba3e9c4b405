"""The units in which the files of a library are compiled together (CMake's unity build)."""
import functools
import json
import os


@functools.cache
def units(build):
    """Returns {unit: text} of all units of the build. Folders of an older configuration may have others."""
    with open(os.path.join(build, 'compile_commands.json'), encoding='utf-8') as file:
        sources = {command['file'] for command in json.load(file)}
    found = {}
    for unit in sorted(source for source in sources if '/Unity/unity_' in source):
        with open(unit, encoding='utf-8') as file:
            found[unit] = file.read()
    return found


def unit_of(build, source):
    """The path of the unit that includes `source`; `source` itself if it is compiled alone."""
    line = f'#include "{source}"'
    for unit, text in units(build).items():
        if line in text:
            return unit
    return str(source)


def write_changed(build, source, text, folder):
    """Writes `text`, a changed version of `source`, and its unit below `folder`. Returns the path to compile."""
    changed = os.path.join(folder, os.path.basename(source))
    with open(changed, 'w', encoding='utf-8') as file:
        file.write(text)
    unit = unit_of(build, source)
    if unit == str(source):
        return changed
    copy = os.path.join(folder, 'unit.cpp')
    with open(copy, 'w', encoding='utf-8') as file:
        file.write(units(build)[unit].replace(f'"{source}"', f'"{changed}"'))
    return copy
