"""Run ReFrame's own command line up to the point where it would start the cases, and print them.

``python -m parity.rfm.capture FILE ARGUMENTS...`` takes the arguments of a `reframe` command and
writes to FILE, as JSON, the cases that this command would run, every check that was loaded and
what ReFrame would only warn about. ReFrame's own loader and filters decide, so every option
means here what it means there; nothing is run or stored.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import reframe.core.decorators as decorators
import reframe.frontend.cli as cli
import reframe.utility as util
from reframe.core.exceptions import what
from reframe.frontend.loader import RegressionCheckLoader

from parity.plan.identity import case_name


class _Recorder:
    """Stands in for ReFrame's logger where a check is instantiated: its warnings are problems."""

    def __init__(self, problems: list[str]):
        self.problems = problems

    def warning(self, message: str) -> None:
        self.problems.append(' '.join(str(message).split()).removesuffix(" (rerun with '-v' for a backtrace)"))

    def __getattr__(self, name: str):
        return lambda *args, **kwargs: None


class _Loader(RegressionCheckLoader):
    """ReFrame's loader, telling what becomes of every file."""

    files: dict[str, int] = {}
    problems: list[dict[str, str]] = []
    checks: list[Any] = []
    variables: dict[str, str] = {}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        _Loader.variables = self._external_vars

    def load_from_file(self, filename, force=False):
        filename = os.path.abspath(filename)
        warnings: list[str] = []
        decorators.getlogger = lambda: _Recorder(warnings)
        try:
            module = util.import_module_from_file(filename, force=force, load_parents=True)
            found = self.load_from_module(module)
            registered = getattr(module, '_rfm_test_registry', None) or ()
            if not found and not warnings and not len(registered):
                warnings.append('yields no check: no class here is decorated with @rfm.simple_test')
        except BaseException:  # whatever a file does when it is imported, it is the file's fault
            found = []
            said = what(*sys.exc_info()).splitlines() or ['no reason given']
            warnings.append(f'cannot be loaded: {said[0].rstrip(":")}')
        self.problems.extend({'file': os.path.relpath(filename), 'what': w} for w in warnings)
        self.checks.extend(found)
        return found


def _metrics(check) -> list[dict[str, str]]:
    return [{'name': m.name, 'unit': m.unit, 'better': m.better} for m in getattr(check, 'metrics', ())]


def _file(check) -> str:
    return os.path.relpath(sys.modules[type(check).__module__].__file__)


def _loaded(check) -> dict[str, Any]:
    parameters = {name: [str(v) for v in p.values] for name, p in type(check).raw_params.items()}
    return {'check': type(check).__name__, 'file': _file(check), 'needs': sorted(getattr(check, 'needs', ())),
            'parameters': parameters, 'metrics': _metrics(check),
            'variants': {name: list(values) for name, values in getattr(check, 'variants', {}).items()}}


def _every(checks) -> dict[str, dict[str, Any]]:
    """Each check once, with the metrics of all its cases: they may depend on parameters."""
    loaded: dict[str, dict[str, Any]] = {}
    for check in map(_loaded, checks):
        known = loaded.setdefault(check['check'], check)
        known['metrics'] += [m for m in check['metrics'] if m not in known['metrics']]
    return loaded


def _unset(variables, checks) -> list[dict[str, str]]:
    """-S options that set nothing: ReFrame warns of some, and of a test that is not there not at all."""
    found = []
    for name, value in variables.items():
        *test, variable = name.split('.', 1)
        having = [c for c in checks if variable in type(c).var_space and (not test or type(c).__name__ == test[0])]
        if not having and not name.startswith('_'):
            of = f'check {test[0]!r} with a variable' if test else 'check has a variable'
            found.append({'file': 'command line', 'what': f'-S {name}={value}: no {of} {variable!r}'})
    return found


def _case(testcase) -> dict[str, Any]:
    check, partition, environ = testcase.check, testcase.partition, testcase.environ
    not_run = check.not_run() if hasattr(check, 'not_run') else {}
    return {
        'check': type(check).__name__,
        'case': case_name(check.display_name),
        'unique_name': check.unique_name,
        'subsystem': getattr(check, 'parity_subsystem', ''),
        'size': getattr(check, 'size', ''),
        'file': _file(check),
        'needs': sorted(getattr(check, 'needs', ())),
        'system': partition.fullname.split(':')[0],
        'partition': partition.name,
        'environ': environ.name,
        'metrics': [{**metric, 'left_out': not_run.get(metric['name'], '')} for metric in _metrics(check)],
    }


def _runner(file: str):
    """A class to put in the place of ReFrame's Runner: it writes the cases down and leaves."""
    class Capture:
        def __init__(self, *args, **kwargs):
            self.stats = None

        def runall(self, testcases, restored_cases=None):
            import reframe.core.runtime as runtime
            cases = [_case(t) for t in testcases if not t.check.is_fixture()]
            loaded = _every(c for c in _Loader.checks if not c.is_fixture())
            system = runtime.runtime().system
            providers = {e.extras.get('provider', '') for p in system.partitions for e in p.environs}
            with open(file, 'w') as out:
                json.dump({'system': system.name, 'cases': cases, 'checks': list(loaded.values()),
                           'providers': sorted(providers),
                           # a bad value keeps every file from loading that has the variable
                           'problems': _Loader.problems or _unset(_Loader.variables, _Loader.checks)}, out)
            sys.stdout.flush()
            os._exit(0)  # ReFrame would now store a report of nothing

    return Capture


def main() -> None:
    file, *arguments = sys.argv[1:]
    cli.Runner = _runner(file)
    cli.RegressionCheckLoader = _Loader
    sys.argv = ['reframe', *arguments]
    cli.main()


if __name__ == '__main__':
    main()
