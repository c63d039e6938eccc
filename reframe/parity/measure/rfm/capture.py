"""The cases that ReFrame's command line is about to run, and those that no environment can run.

ReFrame's loader, generators and filters decide, so every option means here what it means there, and the
checks are loaded once. A check whose needs no environment of a partition offers has no case in ReFrame. Here it
gets one with a placeholder for its environment, which passes every filter and is taken out before the run.

``python -m parity.measure.rfm.capture FILE ARGUMENTS...`` takes the arguments of `reframe` and writes the
plan to FILE, as JSON; nothing is run or stored. With it go the answers to the cases in FILE.asked
(parity.site.plan.Asked)."""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import reframe.core.decorators as decorators
import reframe.core.runtime as runtime
import reframe.frontend.cli as cli
import reframe.frontend.dependencies as dependencies
import reframe.frontend.filters as filters
import reframe.frontend.loader as loader
import reframe.frontend.testgenerators as testgenerators
import reframe.utility as util
from reframe.core.environments import Environment
from reframe.core.exceptions import what
from reframe.core.logging import getlogger
from reframe.frontend import argparse as theirs
from reframe.frontend.executors import Runner, TestCase, generate_testcases
from reframe.frontend.loader import RegressionCheckLoader

from parity.base import codes, errors, paths
from parity.measure.rfm import adopt, variables
from parity.site import systems
from parity.site.identity import case_name

#: Stands for the environment of a case that none can run.
_NONE = Environment('')


def install(taken: Callable[[dict[str, Any], list[TestCase]], None]) -> _Loaded:
    """Let ReFrame's command line call ``taken`` with its plan and its cases when it is about to run them; in a dry
    run, too."""
    found = _Loaded()
    cli.RegressionCheckLoader = found.loader
    cli.generate_testcases = testgenerators.generate_testcases = _every_case
    cli.dependencies = SimpleNamespace(**{**vars(dependencies), 'build_deps': found.build_deps,
                                          'toposort': found.toposort})
    cli.filters = SimpleNamespace(**{**vars(filters), 'have_any_name': found.have_any_name})

    def runner(policy, *args, **kwargs):
        gc.freeze()     # what is loaded stays to the end
        gc.enable()
        taken(found.plan(), found.cases)
        return Runner(policy, *args, **kwargs)

    cli.Runner = runner
    return found


def _every_case(checks, prepare=False) -> list[TestCase]:
    """ReFrame's cases, and one for each check and partition that has none for want of an environment."""
    cases, offers = generate_testcases(checks, prepare), {}
    for check in checks:
        needs = (*check.valid_systems,), (*check.valid_prog_environs,)
        if needs not in offers:
            offers[needs] = runtime.valid_sysenv_comb(*needs)
        cases += [TestCase(check, partition, _NONE) for partition, environs in offers[needs].items()
                  if partition.environs and not environs]
    return cases


class _Loaded:
    """The checks that ReFrame's command line has loaded and selected."""

    def __init__(self):
        self.loaded: _Loader | None = None
        self.whole = False      # all of checks/ is loaded
        self.names: list[str] = []      # of -n
        self.cases: list[TestCase] = []
        self.impossible: dict[TestCase, None] = {}

    def loader(self, load_path, *args, **kwargs) -> _Loader:
        """Whatever loads checks/ loads the paths that system.yaml states, too."""
        self.whole = str(paths.root() / 'checks') in map(os.path.realpath, load_path)
        more = systems.read(runtime.runtime().system.name).checks if self.whole else []
        self.loaded = _Loader([*load_path, *more], *args, **kwargs)
        return self.loaded

    def have_any_name(self, names: list[str]):
        self.names = names
        return filters.have_any_name(names)

    def build_deps(self, cases, *args, **kwargs):
        """ReFrame's graph of the cases that can run; the others stand in it alone until they are sorted."""
        graph, _ = dependencies.build_deps([c for c in cases if c.environ is not _NONE], *args, **kwargs)
        self.impossible = {case: None for case in cases if case not in graph}
        for case in self.impossible:
            case.deps.clear()
            graph[case] = util.OrderedSet()
        return graph, []

    def toposort(self, graph, *args, **kwargs) -> list[TestCase]:
        """The cases to run, in ReFrame's order."""
        ordered = dependencies.toposort(graph, *args, **kwargs)
        self.impossible = {case: None for case in ordered if case in self.impossible}
        self.cases = [case for case in ordered if case not in self.impossible]
        return self.cases

    def plan(self) -> dict[str, Any]:
        system = runtime.runtime().system
        checks, cases = [c for c in self.loaded.checks if not c.is_fixture()], self._planned()
        # a bad value keeps every file from loading that has the variable
        of_cases = [case.check for case in (*self.cases, *self.impossible)]
        problems = [*(self.loaded.problems or _unset(self.loaded.variables, checks)),
                    *_swept(sys.argv[1:], of_cases),
                    *(adopt.strange(checks) if self.whole else ())]
        if not cases and not any(problem.get('refuses', True) for problem in problems):
            problems.append(self._empty(checks))
        return {'system': system.name,
                'providers': sorted({e.extras.get('provider', '') for p in system.partitions for e in p.environs}),
                'cases': cases, 'checks': _every(checks), 'problems': problems}

    def _empty(self, checks) -> dict[str, str]:
        """Tell which names of -n no check has, with the nearest, or else that the options together fit none."""
        names = sorted({type(check).__name__ for check in checks})
        near = [*names, *(check.display_name.replace(' ', '') for check in checks)]
        wrong = [f'-n {name} fits no case{errors.near(name, near)}' for name in self.names
                 if not any(map(filters.have_any_name([name]), [SimpleNamespace(check=each) for each in checks]))]
        if environs := _unknown_environs(sys.argv[1:]):
            return {'file': 'command line', 'what': f'the selection is empty: {"; ".join([*wrong, *environs])}'}
        said = '; '.join(wrong) or f'{shlex.join(sys.argv[1:])} fits no case'
        return {'file': 'command line',
                'what': f'the selection is empty: {said} (checks: {", ".join(names) or "none"})'}

    def _planned(self) -> list[dict[str, Any]]:
        """Repeats of a case are one."""
        found: dict[tuple, dict[str, Any]] = {}
        cases = [*((c, c.environ.name) for c in self.cases), *((c, '') for c in self.impossible)]
        for case in [_case(c, environ) for c, environ in cases if not c.check.is_fixture()]:
            found.setdefault((case['case'], case['partition'], case['environ']), case)
        able = {(case, partition) for case, partition, environ in found if environ}
        return [case for key, case in found.items() if key[2] or key[:2] not in able]


def _belongs_to_a_check(filename: str) -> bool:
    """Return whether the file is in the folder of a code, or below it, and is not the check, FOLDER/FOLDER.py."""
    file = Path(filename)
    return any((check := codes.check_of(folder)) != file and codes.uses_parity(check)
               for folder in (file.parent, file.parent.parent))


def _is_beside_no_check(filename: str) -> bool:
    """Return whether the file is in a folder checks/<subsystem>/<name>/ that is no code."""
    checks, file = paths.root() / 'checks', Path(filename)
    below = file.relative_to(checks).parts if file.is_relative_to(checks) else ()
    return len(below) > 2 and not codes.is_code(checks / below[0] / below[1])


class _Loader(RegressionCheckLoader):
    """ReFrame's loader, telling what becomes of every file."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.problems: list[dict[str, Any]] = [
            {'file': path, 'what': 'no such file or folder; valid after -c, and in checks: of system.yaml, is one '
                                   'with checks'} for path in self.load_path if not os.path.exists(path)]
        self.checks: list[Any] = []
        self.variables: dict[str, str] = self._external_vars

    def load_from_file(self, filename, force=False):
        filename = os.path.abspath(filename)
        if _belongs_to_a_check(filename):
            return []
        found, failed = [], []
        ours = Path(filename).is_relative_to(paths.root() / 'checks')
        logger = _Warned()          # what ReFrame warns of while it makes a check is a problem
        decorators.getlogger = loader.getlogger = lambda: logger
        try:
            module = None
            # a file that uses neither is no test: a script would run where it is imported
            loose = _is_beside_no_check(filename)
            is_test = codes.uses_parity(Path(filename)) and not loose or self._validate_source(filename)
            if is_test:
                module = util.import_module_from_file(filename, force=force, load_parents=True)
                found = self.load_from_module(module)
            known = found or logger.warnings or hasattr(module, '_rfm_test_registry')
            needed = ours and Path(filename).parent.name != 'src' and (is_test or not loose)
            if not known and needed and not hasattr(module, 'PROFILE'):
                failed = ['yields no check: no class here is decorated with @rfm.simple_test']
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a file does when it is imported, it is the file's fault
            said = what(*sys.exc_info()).splitlines() or ['no reason given']
            failed = [f'cannot be loaded: {said[0].rstrip(":")}']
        finally:
            decorators.getlogger = loader.getlogger = getlogger
        self.problems += [{'file': paths.named(filename), 'what': each, **({} if ours else {'refuses': False})}
                          for each in (*_warnings(logger), *failed)]
        self.checks += found
        return found


class _Warned:
    """ReFrame's logger, and what it warned of."""

    def __init__(self):
        self.warnings: list[str] = []

    def __getattr__(self, name):
        return getattr(getlogger(), name)

    def warning(self, message, *args, **kwargs):
        self.warnings.append(str(message))
        getlogger().warning(message, *args, **kwargs)


def _warnings(logger: _Warned) -> list[str]:
    """Return what ReFrame warned of, once for all variants of a test that it leaves out."""
    said: dict[str, str] = {}
    for message in logger.warnings:
        text = ' '.join(message.split()).removesuffix(" (rerun with '-v' for a backtrace)")
        test = re.match(r"skipping test '\w+'", text)
        said.setdefault(test[0] if test else text, text)
    return list(said.values())


def _of(check):
    """Return what answers the plan: a foreign test may have other things by these names."""
    return getattr(check, 'parity_told', check)


def _metrics(check, partition=None) -> list[dict[str, str]]:
    """The metrics of a check as its class states them, or those that it has on a partition."""
    check = _of(check)
    stated = check.metrics_on(partition) if partition else check.metrics
    return [{'name': m.name, 'unit': m.unit, 'better': m.better,
             **({'unknown': m.unknown} if getattr(m, 'unknown', '') else {})} for m in stated]


def _file(check) -> str:
    return paths.named(sys.modules[type(check).__module__].__file__)


def _every(checks) -> list[dict[str, Any]]:
    """Each check once, with the metrics of all its cases: they may depend on parameters."""
    loaded: dict[str, dict[str, Any]] = {}
    for check in checks:
        of = _of(check)
        name = type(check).__name__
        if name not in loaded:
            loaded[name] = {
                'check': name, 'file': _file(check), 'needs': sorted(of.needs),
                'parameters': {name: [str(v) for v in p.values] for name, p in type(check).raw_params.items()},
                'metrics': [], 'variants': {name: list(v) for name, v in of.variants.items()},
                'sizes': [] if of is check else [of.size]}
        metrics = loaded[name]['metrics']
        metrics += [m for m in _metrics(check) if m not in metrics]
    return list(loaded.values())


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


def _case(testcase: TestCase, environ: str) -> dict[str, Any]:
    check, partition = testcase.check, testcase.partition
    of = _of(check)
    not_run = of.not_run()
    return {
        'check': type(check).__name__, 'case': case_name(check.display_name), 'unique_name': check.unique_name,
        'subsystem': of.parity_subsystem, 'size': of.size,
        'file': _file(check), 'needs': sorted(of.needs_of(testcase.environ)),
        'system': partition.fullname.split(':')[0], 'partition': partition.name, 'environ': environ,
        'metrics': [{**metric, 'left_out': not_run.get(metric['name'], '')}
                    for metric in _metrics(check, partition)]}


def _values(argv: list[str], short: str, long: str) -> list[str]:
    """Return the values of an option of `reframe ARGV`, which may stand behind it or be a part of its word."""
    found = []
    for at, word in enumerate(argv):
        if word in (short, long):
            found += argv[at + 1:at + 2]
        elif word.startswith(f'{long}='):
            found.append(word.partition('=')[2])
        elif word.startswith(short) and not word.startswith('--'):
            found.append(word.removeprefix(short))
    return found


def _unknown_environs(argv: list[str]) -> list[str]:
    """Return a sentence for each -p that fits no environment of the system."""
    config, system = runtime.runtime().site_config, runtime.runtime().system
    partitions = {partition['name']: partition['environs'] for partition in config.get('systems/0/partitions')}
    known = sorted({name for environs in partitions.values() for name in environs})
    found = []
    for pattern in _values(argv, '-p', '--prgenv'):
        if any(re.match(pattern, name) for name in known):
            continue
        instead = f' ({pattern} is a partition: --system {system.name}:{pattern})' if pattern in partitions else ''
        found.append(f'-p {pattern} fits no environment of {system.name}: valid are {", ".join(known)}{instead}')
    return found


def _swept(argv: list[str], checks) -> list[dict[str, str]]:
    """Return a problem for each value that -P gives to a parameter of words and that no selected check has."""
    found = []
    for option in _values(argv, '-P', '--parameterize'):
        name, _, values = option.partition('=')
        declared = [variables.parameter(type(check), name) for check in checks]
        of_words = [parameter for parameter in declared if parameter and parameter.type is str]
        words = set().union(*(parameter.values for parameter in of_words))
        for value in values.split(',') if words else ():
            if value not in words:
                what = f'-P {name}={value}: valid are {", ".join(sorted(words))}'
                found.append({'file': 'command line', 'what': what})
    return found


class _Parsed(Exception):
    """ReFrame has read its options."""


def check_options(options: list[str], ours: str) -> None:
    """Have ReFrame's own parser read its options. UsageError for one that it does not know, with ``ours``."""
    from unittest import mock
    parse = theirs.ArgumentParser.parse_args

    def only_parse(parser, *_):
        parse(parser, ['-r', *options])
        raise _Parsed

    def refuse(_, message: str):
        raise errors.UsageError(f'reframe refuses: {message}; valid are {ours} and what reframe --help lists')

    with mock.patch.object(theirs.ArgumentParser, 'parse_args', only_parse), \
            mock.patch.object(argparse.ArgumentParser, 'error', refuse):
        try:
            cli.main()
        except _Parsed:
            pass


def main() -> None:
    from parity.measure.rfm import dry_run
    file, *arguments = sys.argv[1:]

    def taken(plan: dict[str, Any], _) -> None:
        asked = json.loads(Path(f'{file}.asked').read_text())
        with open(file, 'w') as out:
            json.dump({**plan, 'answers': dry_run.answers(asked, found.loaded.checks)}, out)
        sys.stdout.flush()
        os._exit(0)  # ReFrame would now run the cases

    found = install(taken)
    sys.argv = ['reframe', *arguments]
    cli.main()


if __name__ == '__main__':
    main()
