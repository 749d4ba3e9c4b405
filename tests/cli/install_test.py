"""`cmake --install` of a build with CUDA that was made without roll-rank-cuda, as packaging/demo leaves it.

usage: install_test.py SOURCE_DIRECTORY
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PROJECT = '''
cmake_minimum_required(VERSION 3.25)
project(demo VERSION 0.1.0 LANGUAGES CXX)
include(GNUInstallDirs)
add_library(roll_flags INTERFACE)
foreach(name common tensor spec_schema spec_job spec_train protocol families formats layout checkpoint
        convert_checkpoint convert_plan convert_read convert_write convert_adapter convert)
  add_library(roll_${name} INTERFACE)
  target_sources(roll_${name} INTERFACE FILE_SET HEADERS)
endforeach()
add_executable(rolld main.cpp)
add_executable(roll-rank-cuda EXCLUDE_FROM_ALL main.cpp)
include(packaging/cmake/Install.cmake)
'''


def run(*args):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True)
    assert done.returncode == 0, f'{args}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix='roll-install-') as top:
        root = pathlib.Path(top)
        for name in ('packaging', 'schemas', 'examples', 'systemd', 'docs'):
            os.symlink(source / name, root / name)
        (root / 'CMakeLists.txt').write_text(PROJECT)
        (root / 'main.cpp').write_text('int main() {}\n')
        build, prefix = root / 'build', root / 'prefix'
        run('cmake', '-S', root, '-B', build, '-G', 'Ninja')
        run('cmake', '--build', build)
        said = run('cmake', '--install', build, '--prefix', prefix)
        assert 'Left out, as it is not built: roll-rank-cuda' in said, said
        for page in ('man8/rolld.8', 'man7/roll.7', 'man5/roll-job.5'):
            assert (prefix / 'share/man' / page).exists(), 'all that stands behind it is installed'
        run('cmake', '--build', build, '--target', 'roll-rank-cuda')
        assert 'Left out' not in run('cmake', '--install', build, '--prefix', prefix)
        assert sorted(os.listdir(prefix / 'bin')) == ['roll-rank-cuda', 'rolld']


main()
