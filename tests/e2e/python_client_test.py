"""The Python package of packaging/python, installed from its wheel, on a real queue."""
import json
import os
import shutil
import subprocess
import tempfile
import textwrap
import unittest
import zipfile

from harness import RollTest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'packaging', 'python')


DEBIAN_PYTHON = '/usr/bin/python3'  # its pip, setuptools and wheel are Debian packages


class PythonClient(RollTest):
    @classmethod
    def setUpClass(cls):
        """Builds the wheel and installs it in a virtual environment, without a network."""
        super().setUpClass()
        cls.made = tempfile.mkdtemp(prefix='roll-wheel-')
        cls.addClassCleanup(shutil.rmtree, cls.made)
        source, environment = os.path.join(cls.made, 'source'), os.path.join(cls.made, 'venv')
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns('__pycache__'))  # pip writes into the source
        cls.python = os.path.join(environment, 'bin', 'python')
        pip = [DEBIAN_PYTHON, '-m', 'pip', '--quiet', '--isolated', '--no-cache-dir', '--disable-pip-version-check']
        offline = ['--no-index', '--no-deps']
        cls.tool(*pip, 'wheel', *offline, '--no-build-isolation', '--wheel-dir', cls.made, source)
        cls.wheel = os.path.join(cls.made, 'rollctl-0.1.0-py3-none-any.whl')
        cls.tool(DEBIAN_PYTHON, '-m', 'venv', '--without-pip', environment)
        cls.tool(*pip, '--python', cls.python, 'install', *offline, cls.wheel)

    @classmethod
    def tool(cls, *words):
        done = subprocess.run(words, cwd=cls.made, capture_output=True, text=True, timeout=120, check=False,
                              env={'PATH': '/usr/bin:/bin', 'HOME': cls.made})
        if done.returncode != 0:
            raise AssertionError(f'{words}: {done.stdout}{done.stderr}')

    def setUp(self):
        super().setUp()
        # Without cloudpickle, which may be installed, unless a test brings its own.
        self.write('cloudpickle.py', 'raise ImportError\n')
        self.up(slots=2)

    def script(self, body, name='script.py'):
        """Runs a Python script in the work folder. Returns what it printed as JSON."""
        path = self.write(name, textwrap.dedent(body))
        done = subprocess.run([self.python, path], cwd=self.work, env=self.env, timeout=60,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_functions_of_the_main_script_and_of_a_module_run_as_jobs(self):
        self.write('helper.py', 'def twice(x):\n    return 2 * x\n')
        self.assertEqual(self.script('''
            import json, helper, os
            from rollctl import Executor
            class Point:
                def __init__(self, x):
                    self.x = x
            def where(a, *, b):
                print('in the job')
                return [a + b, os.environ['ROLL_JOB'], __name__]
            if __name__ == '__main__':
                with Executor('calls') as executor:
                    first = executor.submit(where, 1, b=2)
                    second = executor.submit(helper.twice, 21)
                    third = executor.submit(Point, 5)
                    print(json.dumps([first.result(30), first.log(), first.state(), second.result(30),
                                      isinstance(third.result(30), Point)]))
        '''), [[3, '1', '__mp_main__'], 'in the job\n', 'done', 42, True])
        self.assertEqual(self.show(1)['name'], 'where')

    def test_map_is_one_array_and_keeps_the_order(self):
        self.assertEqual(self.script('''
            import json
            from rollctl import Executor
            def add(a, b):
                return a + b
            if __name__ == '__main__':
                with Executor('calls', name='sums') as executor:
                    print(json.dumps(list(executor.map(add, range(6), range(0, 60, 10)))))
        '''), [0, 11, 22, 33, 44, 55])
        jobs = self.json('jobs', '-a')['jobs']
        self.assertEqual([(job['name'], job['state']) for job in jobs], [('sums', 'done')] * 6)

    def test_an_exception_comes_back_with_its_traceback_and_fails_the_job(self):
        kind, text, cause, state = self.script('''
            import json
            from rollctl import Executor
            def divide(a):
                return 1 / a
            if __name__ == '__main__':
                with Executor('calls') as executor:
                    future = executor.submit(divide, 0)
                    error = future.exception(30)
                    print(json.dumps([type(error).__name__, str(error), str(error.__cause__), future.state()]))
        ''')
        self.assertEqual((kind, text, state), ('ZeroDivisionError', 'division by zero', 'failed'))
        self.assertIn('return 1 / a', cause)

    def test_a_job_that_dies_or_is_cancelled_says_so(self):
        died, log, cancelled, unpicklable = self.script('''
            import json, os, threading, time
            from rollctl import Executor, JobFailed
            def die():
                print('last words', flush=True)
                os._exit(9)
            def sleep():
                time.sleep(600)
            def lock():
                return threading.Lock()
            if __name__ == '__main__':
                with Executor('calls') as executor:
                    error = executor.submit(die).exception(30)
                    assert isinstance(error, JobFailed)
                    stuck = executor.submit(sleep)
                    while not stuck.running():
                        time.sleep(0.05)
                    assert stuck.cancel()
                    other = executor.submit(lock).exception(30)
                    print(json.dumps([error.job.exit_code, str(error), stuck.cancelled(), str(other)]))
        ''')
        self.assertEqual((died, cancelled), (9, True))
        self.assertIn('last words', log)
        self.assertIn('the call value cannot be pickled', unpicklable)
        self.assertEqual(self.show(2)['state'], 'cancelled')

    def test_a_retried_call_has_the_result_of_its_last_attempt_and_survives_rolld(self):
        self.assertEqual(self.script('''
            import json, os, signal, time
            from rollctl import Executor
            def second_time():
                if not os.path.exists('been.here'):
                    open('been.here', 'w').close()
                    raise RuntimeError('the first attempt fails')
                return os.environ['ROLL_TOKEN']
            def slow():
                time.sleep(2)
                return 'slow'
            if __name__ == '__main__':
                with Executor('calls', job={'retry': {'app': 1, 'backoff': '1s'}}) as executor:
                    token = executor.submit(second_time).result(30)
                    future = executor.submit(slow)
                    with open(os.environ['ROLL_DIR'] + '/rolld.pid') as file:
                        os.kill(int(file.read().split()[0]), signal.SIGKILL)
                    assert os.system('rollctl up --slots 2 >/dev/null 2>&1') == 0
                    print(json.dumps([token, future.result(30)]))
        '''), ['1-2', 'slow'])

    def test_each_process_of_a_gang_has_a_result(self):
        self.assertEqual(self.script('''
            import json, os
            from rollctl import AutoExecutor
            def rank():
                return os.environ['RANK'] + '/' + os.environ['WORLD_SIZE']
            if __name__ == '__main__':
                executor = AutoExecutor('calls')
                executor.update_parameters(name='gang', tasks_per_node=2, timeout_min=5)
                print(json.dumps(executor.submit(rank).results(30)))
        '''), ['0/2', '1/2'])
        self.assertEqual(self.show(1)['spec']['resources']['time'], '300s')

    def test_the_client_queues_watches_and_cancels_jobs(self):
        self.corpus()
        self.train_job(steps=10, export='none')
        result = self.script('''
            import json
            import importlib.metadata, rollctl
            from rollctl import Client, RollError
            client = Client()
            train = client.submit('tiny.yaml', settings={'train.steps': 6})
            again = [client.submit({'kind': 'command', 'name': 'once', 'command': ['true']}, key='k') for _ in '12']
            array = client.submit({'kind': 'command', 'name': 'many', 'command': ['sh', '-c', 'echo $ROLL_ARRAY_INDEX'],
                                   'array': '0-2'}, after=[f'ok:{train[0]}'])
            ended = client.wait(train + array)
            held = client.submit({'kind': 'command', 'name': 'held', 'command': ['true'], 'hold': True})
            gone = client.cancel(held, 'not needed')
            errors = []
            for wrong in ({'kind': 'command', 'name': 'x'}, {'kind': 'what', 'name': 'x'}, 'missing.yaml'):
                try:
                    client.submit(wrong)
                except RollError as error:
                    errors.append(error.code)
            print(json.dumps([train, again, array, [job.state for job in ended], client.logs(array[2]), gone == held,
                              client.job(held[0]).reason, len(client.metrics(train[0])), errors,
                              importlib.metadata.version('rollctl'), rollctl.__file__]))
        ''')
        train, again, array, states, log, gone, reason, rows, errors, version, place = result
        self.assertEqual((version, place.startswith(self.made)), ('0.1.0', True), place)
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertIn('rollctl/py.typed', wheel.namelist())
        self.assertEqual(again, [[2], [2]])
        self.assertEqual(array, [3, 4, 5])
        self.assertEqual((train, states, log, gone), ([1], ['done'] * 4, '2\n', True))
        self.assertIn('not needed', reason)
        self.assertGreaterEqual(rows, 6)
        self.assertEqual(errors, ['invalid_argument', 'invalid_argument', 'not_found'])


if __name__ == '__main__':
    unittest.main(verbosity=2)
