"""The machine of gpu-check: its PyTorch, libraries, card and driver, and how programs run on it."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

TORCH = '2.11'
CUDA = 'cu130'

# Runs in a Python of its own, because `import torch` takes seconds and may fail.
LOOK = r'''
import json, os, torch
found = {"version": torch.__version__, "cuda": torch.version.cuda, "folder": os.path.dirname(torch.__file__)}
with open("/proc/self/maps") as maps:
    found["loaded"] = sorted({line.split()[-1] for line in maps if ".so" in line})
found["cards"] = []
if torch.cuda.is_available():
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        found["cards"].append({"name": p.name, "memory_bytes": p.total_memory,
                               "multiprocessors": p.multi_processor_count, "capability": f"{p.major}.{p.minor}"})
    found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    found["cudnn"] = torch.backends.cudnn.version()
print(json.dumps(found))
'''


class Refused(Exception):
    """The machine lacks what the checks need. The message is one sentence."""


class Late(Exception):
    """A step reached its time limit."""


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else 'no message'


class Programs:
    """The running programs, each in its own process group. A signal that ends this program ends them, too."""

    running, starting, signal = [], False, 0

    @classmethod
    def stop(cls, number, _frame):
        """Handles a signal. Waits until a program that is being started is in the list."""
        cls.signal = number
        if not cls.starting:
            sys.exit(128 + number)

    @classmethod
    def start(cls, command, **options):
        cls.starting = True
        try:
            process = subprocess.Popen(command, start_new_session=True, **options)
            cls.running.append(process)
        finally:
            cls.starting = False
        if cls.signal:
            sys.exit(128 + cls.signal)
        return process

    @classmethod
    def end(cls, process):
        """Kills the program and its group unless it has ended, and waits for its end."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process in cls.running:
            cls.running.remove(process)


def run(command, deadline, env=None, stdin=subprocess.DEVNULL):
    """Returns the ended process with its output. Kills its whole process group at the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise Late
    process = Programs.start(list(map(str, command)), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors='replace', env=env)
    with process:
        try:
            out, err = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            raise Late from None
        finally:
            Programs.end(process)
    # 128 + n for signal n, as in a shell: a negative status would be below every limit
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return subprocess.CompletedProcess(command, status, out, err)


def find_torch(deadline):
    """Returns facts about the PyTorch of `python3`. Raises Refused unless its version is the bundle's."""
    done = run([sys.executable, '-c', LOOK], deadline)
    if done.returncode != 0:
        raise Refused(f'{sys.executable} cannot import torch ({last_line(done.stderr)}); the checks need PyTorch '
                      f'{TORCH} built for {CUDA}')
    found = json.loads(done.stdout.splitlines()[-1])
    if not re.match(re.escape(TORCH) + r'(\.|$)', found['version']) or not found['version'].endswith('+' + CUDA):
        raise Refused(f"PyTorch {found['version']} in {found['folder']} is not {TORCH} built for {CUDA}: run gpu-check "
                      'with the python3 of such a PyTorch, or make the bundle again with that LibTorch')
    return found


def library_folders(torch):
    """Returns the folders of the libraries of PyTorch, CUDA and NCCL that `import torch` loaded."""
    folders = [os.path.join(torch['folder'], 'lib')]
    for path in torch['loaded']:
        if re.match(r'lib(cu|nv|nccl|torch|c10)', os.path.basename(path)):
            folders.append(os.path.dirname(path))
    return list(dict.fromkeys(folders))


def driver_version():
    try:
        with open('/proc/driver/nvidia/version', encoding='utf-8') as file:
            found = re.search(r'\b\d{3}\.\d+(\.\d+)?\b', file.read())
            return found.group(0) if found else None
    except OSError:
        pass
    smi = shutil.which('nvidia-smi')
    if smi is None:
        return None
    done = subprocess.run([smi, '--query-gpu=driver_version', '--format=csv,noheader'], capture_output=True, text=True,
                          timeout=30, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else None


def find_sanitizer():
    """Returns the path of compute-sanitizer; None if it is not on this machine."""
    homes = [os.environ.get('CUDA_HOME', '/usr/local/cuda'), '/usr/local/cuda', '/opt/cuda']
    for folder in [*os.environ.get('PATH', '').split(':'), *(home + '/bin' for home in homes)]:
        path = os.path.join(folder, 'compute-sanitizer')
        if os.access(path, os.X_OK):
            return path
    return None


def environment(bundle, torch, scratch):
    """Returns the environment of Roll's programs. Only they get LD_LIBRARY_PATH; no Python gets it."""
    kept = {name: value for name, value in os.environ.items()
            if name in ('CUDA_VISIBLE_DEVICES', 'OMP_NUM_THREADS', 'TMPDIR', 'USER', 'ROLL_PROCESSOR')}
    runtime = os.path.join(scratch, 'run')
    os.makedirs(runtime, mode=0o700, exist_ok=True)
    return {**kept, 'PATH': f"{os.path.join(bundle, 'bin')}:/usr/local/bin:/usr/bin:/bin", 'HOME': scratch,
            'LC_ALL': 'C.UTF-8', 'GOMP_SPINCOUNT': '1000', 'NO_COLOR': '1', 'XDG_RUNTIME_DIR': runtime,
            # The driver's libcuda.so.1 may be on the caller's path.
            'LD_LIBRARY_PATH': ':'.join([*library_folders(torch), os.environ.get('LD_LIBRARY_PATH', '')]).rstrip(':')}
