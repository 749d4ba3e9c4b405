"""The units in which the files of a library are compiled together (CMake's unity build)."""
import glob
import os


def unit_of(build, source):
    """The path of the unit that includes `source`; `source` itself if it is compiled alone."""
    line = f'#include "{source}"'
    for unit in glob.glob(os.path.join(build, '**', 'Unity', 'unity_*_cxx.cxx'), recursive=True):
        with open(unit, encoding='utf-8') as file:
            if line in file.read():
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
    with open(unit, encoding='utf-8') as file:
        whole = file.read()
    copy = os.path.join(folder, 'unit.cpp')
    with open(copy, 'w', encoding='utf-8') as file:
        file.write(whole.replace(f'"{source}"', f'"{changed}"'))
    return copy
