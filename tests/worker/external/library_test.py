"""The converter as a library: a project outside the tree finds the installed library, links it and runs.

usage: library_test.py BUILD_DIRECTORY ROLL_CONVERT
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / 'oracle'))
from tiny_hf import write_llama  # noqa: E402


def run(*args):
    done = subprocess.run([str(arg) for arg in args], capture_output=True, text=True)
    assert done.returncode == 0, f'{args}: exit {done.returncode}\n{done.stdout}{done.stderr}'
    return done.stdout


def main():
    build, program = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='roll-library-') as top:
        root = pathlib.Path(top)
        run('cmake', '--install', build, '--prefix', root / 'prefix', '--component', 'library')
        left = [path for path in (root / 'prefix').rglob('*') if 'torch' in path.name and path.suffix == '.so']
        assert not left, left
        run('cmake', '-S', HERE, '-B', root / 'build', '-G', 'Ninja', f'-DCMAKE_PREFIX_PATH={root}/prefix',
            '-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=mold', '-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror')
        run('cmake', '--build', root / 'build')
        write_llama(root / 'hf')
        said = run(root / 'build/reshard', root / 'hf', root / 'mca', 2)
        assert 'llama, 39 tensors' in said and 'in 2 files' in said, said
        run(root / 'build/reshard', root / 'mca', root / 'mca4', 4)
        run(program, 'diff', root / 'hf', root / 'mca4')
        refused = subprocess.run([root / 'build/reshard', root / 'hf', root / 'mca3', '3'], capture_output=True)
        assert refused.returncode == 2 and b'is not divisible' in refused.stderr, refused.stderr


main()
