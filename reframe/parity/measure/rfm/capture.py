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
    loaded = _Loaded()
    cli.RegressionCheckLoader = loaded.loader
    cli.generate_testcases = testgenerators.generate_testcases = _every_case
    cli.dependencies = _with(dependencies, build_deps=loaded.build_deps, toposort=loaded.toposort)
    cli.filters = _with(filters, have_any_name=loaded.have_any_name)

    def runner(policy, *args, **kwargs):
        gc.freeze()     # what is loaded stays to the end
        gc.enable()
        taken(loaded.plan(), loaded.cases)
        return Runner(policy, *args, **kwargs)

    cli.Runner = runner
    return loaded


def _with(module, **functions) -> SimpleNamespace:
    """Return what a module holds, with other functions in the place of some."""
    return SimpleNamespace(**{**vars(module), **functions})


def _every_case(checks, prepare=False) -> list[TestCase]:
    """ReFrame's cases, and one for each check and partition that has none for want of an environment."""
    cases = generate_testcases(checks, prepare)
    offers = {}
    for check in checks:
        needs = tuple(check.valid_systems), tuple(check.valid_prog_environs)
        if needs not in offers:
            offers[needs] = runtime.valid_sysenv_comb(*needs)
        for partition, environs in offers[needs].items():
            if partition.environs and not environs:
                cases.append(TestCase(check, partition, _NONE))
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
        if self.whole:
            system = systems.read(runtime.runtime().system.name)
            load_path = [*load_path, *system.checks]
        self.loaded = _Loader(load_path, *args, **kwargs)
        return self.loaded

    def have_any_name(self, names: list[str]):
        self.names = names
        return filters.have_any_name(names)

    def build_deps(self, cases, *args, **kwargs):
        """ReFrame's graph of the cases that can run; the others stand in it alone until they are sorted."""
        able = [case for case in cases if case.environ is not _NONE]
        graph, _ = dependencies.build_deps(able, *args, **kwargs)
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
        checks = [check for check in self.loaded.checks if not check.is_fixture()]
        cases = self._planned()
        problems = self._problems(checks)
        if not cases and not any(problem.get('refuses', True) for problem in problems):
            problems.append(self._empty(checks))
        providers = set()
        for partition in system.partitions:
            providers.update(environ.extras.get('provider', '') for environ in partition.environs)
        return {'system': system.name, 'providers': sorted(providers), 'cases': cases,
                'checks': _checks(checks), 'problems': problems}

    def _problems(self, checks) -> list[dict[str, Any]]:
        """Return what is wrong with files, with options, and with adopt.yaml."""
        # a bad value keeps every file from loading that has the variable
        problems = list(self.loaded.problems or _unset(self.loaded.variables, checks))
        selected = [case.check for case in (*self.cases, *self.impossible)]
        problems += _swept(sys.argv[1:], selected)
        if self.whole:
            problems += adopt.strange(checks)
        return problems

    def _empty(self, checks) -> dict[str, str]:
        """Tell which names of -n no check has, with the nearest, or else that the options together fit none."""
        names = sorted({type(check).__name__ for check in checks})
        valid = [*names, *(check.display_name.replace(' ', '') for check in checks)]
        wrong = []
        for name in self.names:
            fits = filters.have_any_name([name])
            if not any(fits(SimpleNamespace(check=check)) for check in checks):
                wrong.append(f'-n {name} fits no case{errors.near(name, valid)}')
        environs = _unknown_environs(sys.argv[1:])
        if environs:
            why = '; '.join([*wrong, *environs])
        else:
            why = '; '.join(wrong) or f'{shlex.join(sys.argv[1:])} fits no case'
            why += f' (checks: {", ".join(names) or "none"})'
        return {'file': 'command line', 'what': f'the selection is empty: {why}'}

    def _planned(self) -> list[dict[str, Any]]:
        """Repeats of a case are one. A case that runs in one environment is not also one without."""
        planned: dict[tuple, dict[str, Any]] = {}
        for testcase in self.cases:
            _add(planned, testcase, testcase.environ.name)
        able = {(case, partition) for case, partition, _ in planned}
        for testcase in self.impossible:
            if (case_name(testcase.check.display_name), testcase.partition.name) not in able:
                _add(planned, testcase, '')
        return list(planned.values())


def _add(planned: dict[tuple, dict[str, Any]], testcase: TestCase, environ: str) -> None:
    """Add a case to the plan, unless it is a fixture or a repeat."""
    if not testcase.check.is_fixture():
        case = _case(testcase, environ)
        planned.setdefault((case['case'], case['partition'], environ), case)


def _belongs_to_a_check(filename: str) -> bool:
    """Return whether the file is in the folder of a code, or below it, and is not the check, FOLDER/FOLDER.py."""
    file = Path(filename)
    for folder in (file.parent, file.parent.parent):
        check = codes.check_of(folder)
        if check != file and codes.uses_parity(check):
            return True
    return False


def _is_beside_no_check(filename: str) -> bool:
    """Return whether the file is in a folder checks/<subsystem>/<name>/ that is no code."""
    checks = paths.root() / 'checks'
    if not Path(filename).is_relative_to(checks):
        return False
    below = Path(filename).relative_to(checks).parts
    if len(below) < 3:
        return False
    subsystem, name, *_ = below
    return not codes.is_code(checks / subsystem / name)


class _Loader(RegressionCheckLoader):
    """ReFrame's loader, telling what becomes of every file."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.problems: list[dict[str, Any]] = []
        self.checks: list[Any] = []
        self.variables: dict[str, str] = self._external_vars
        absent = 'no such file or folder; valid after -c, and in checks: of system.yaml, is one with checks'
        for path in self.load_path:
            if not os.path.exists(path):
                self.problems.append({'file': path, 'what': absent})

    def load_from_file(self, filename, force=False):
        filename = os.path.abspath(filename)
        if _belongs_to_a_check(filename):
            return []
        checks, failures = [], []
        logger = _Warned()          # what ReFrame warns of while it makes a check is a problem
        decorators.getlogger = loader.getlogger = lambda: logger
        try:
            module = None
            # a file that uses neither is no test: a script would run where it is imported
            loose = _is_beside_no_check(filename)
            is_test = codes.uses_parity(Path(filename)) and not loose or self._validate_source(filename)
            if is_test:
                module = util.import_module_from_file(filename, force=force, load_parents=True)
                checks = self.load_from_module(module)
            has_tests = checks or logger.warnings or hasattr(module, '_rfm_test_registry')
            if not has_tests and _must_have_tests(filename, is_test, loose) and not hasattr(module, 'PROFILE'):
                failures = ['yields no check: no class here is decorated with @rfm.simple_test']
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a file does when it is imported, it is the file's fault
            reason = what(*sys.exc_info()).splitlines() or ['no reason given']
            failures = [f'cannot be loaded: {reason[0].rstrip(":")}']
        finally:
            decorators.getlogger = loader.getlogger = getlogger
        for failure in (*_warnings(logger), *failures):
            self.problems.append(_problem(filename, failure))
        self.checks += checks
        return checks


def _is_ours(filename: str) -> bool:
    return Path(filename).is_relative_to(paths.root() / 'checks')


def _must_have_tests(filename: str, is_test: bool, loose: bool) -> bool:
    """Return whether a file of checks/ is wrong without a test: sources, and scripts beside no check, may be."""
    if not _is_ours(filename) or Path(filename).parent.name == 'src':
        return False
    return is_test or not loose


def _problem(filename: str, failure: str) -> dict[str, Any]:
    """Return the problem of a file; one of the site keeps no night from running."""
    problem = {'file': paths.named(filename), 'what': failure}
    return problem if _is_ours(filename) else {**problem, 'refuses': False}


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
    warnings: dict[str, str] = {}
    for message in logger.warnings:
        text = ' '.join(message.split()).removesuffix(" (rerun with '-v' for a backtrace)")
        test = re.match(r"skipping test '\w+'", text)
        warnings.setdefault(test[0] if test else text, text)
    return list(warnings.values())


def _of(check):
    """Return what answers the plan: a foreign test may have other things by these names."""
    return getattr(check, 'parity_told', check)


def _metrics(check, partition=None) -> list[dict[str, str]]:
    """The metrics of a check as its class states them, or those that it has on a partition."""
    answers = _of(check)
    metrics = []
    for metric in answers.metrics_on(partition) if partition else answers.metrics:
        stated = {'name': metric.name, 'unit': metric.unit, 'better': metric.better}
        why = getattr(metric, 'unknown', '')
        if why:
            stated['unknown'] = why
        metrics.append(stated)
    return metrics


def _checks(loaded) -> list[dict[str, Any]]:
    """Each check once, with the metrics of all its cases: they may depend on parameters."""
    checks: dict[str, dict[str, Any]] = {}
    for check in loaded:
        name = type(check).__name__
        if name not in checks:
            checks[name] = _check(check)
        metrics = checks[name]['metrics']
        metrics += [metric for metric in _metrics(check) if metric not in metrics]
    return list(checks.values())


def _check(check) -> dict[str, Any]:
    """Return what the plan says of a check (site.plan.LoadedCheck), but for its metrics."""
    answers = _of(check)
    parameters = {}
    for name, parameter in type(check).raw_params.items():
        parameters[name] = [str(value) for value in parameter.values]
    variants = {name: list(values) for name, values in answers.variants.items()}
    is_foreign = answers is not check
    return {
        'check': type(check).__name__,
        'file': _file(check),
        'needs': sorted(answers.needs),
        'parameters': parameters,
        'metrics': [],
        'variants': variants,
        'sizes': [answers.size] if is_foreign else [],
    }


def _file(check) -> str:
    return paths.named(sys.modules[type(check).__module__].__file__)


def _unset(variables, checks) -> list[dict[str, str]]:
    """-S options that set nothing: ReFrame warns of some, and of a test that is not there not at all."""
    problems = []
    for name, value in variables.items():
        test, dot, variable = name.partition('.')
        if not dot:
            variable = name
        classes = [type(check) for check in checks if not dot or type(check).__name__ == test]
        if name.startswith('_') or any(variable in cls.var_space for cls in classes):
            continue
        owner = f'check {test!r} with a variable' if dot else 'check has a variable'
        problems.append({'file': 'command line', 'what': f'-S {name}={value}: no {owner} {variable!r}'})
    return problems


def _case(testcase: TestCase, environ: str) -> dict[str, Any]:
    """Return what the plan says of a case (site.plan.PlannedCase)."""
    check, partition = testcase.check, testcase.partition
    answers = _of(check)
    not_run = answers.not_run()
    metrics = _metrics(check, partition)
    for metric in metrics:
        metric['left_out'] = not_run.get(metric['name'], '')
    return {
        'check': type(check).__name__, 'case': case_name(check.display_name), 'unique_name': check.unique_name,
        'subsystem': answers.parity_subsystem, 'size': answers.size,
        'file': _file(check), 'needs': sorted(answers.needs_of(testcase.environ)),
        'system': partition.fullname.split(':')[0], 'partition': partition.name, 'environ': environ,
        'metrics': metrics}


def _values(argv: list[str], short: str, long: str) -> list[str]:
    """Return the values of an option of `reframe ARGV`, which may stand behind it or be a part of its word."""
    values = []
    for index, word in enumerate(argv):
        if word in (short, long):
            values += argv[index + 1:index + 2]
        elif word.startswith(f'{long}='):
            values.append(word.partition('=')[2])
        elif word.startswith(short) and not word.startswith('--'):
            values.append(word.removeprefix(short))
    return values


def _unknown_environs(argv: list[str]) -> list[str]:
    """Return a sentence for each -p that fits no environment of the system."""
    system = runtime.runtime().system.name
    environs = set()
    partitions = set()
    for partition in runtime.runtime().site_config.get('systems/0/partitions'):
        partitions.add(partition['name'])
        environs.update(partition['environs'])
    sentences = []
    for pattern in _values(argv, '-p', '--prgenv'):
        if any(re.match(pattern, name) for name in environs):
            continue
        sentence = f'-p {pattern} fits no environment of {system}: valid are {", ".join(sorted(environs))}'
        if pattern in partitions:
            sentence += f' ({pattern} is a partition: --system {system}:{pattern})'
        sentences.append(sentence)
    return sentences


def _swept(argv: list[str], checks) -> list[dict[str, str]]:
    """Return a problem for each value that -P gives to a parameter of words and that no selected check has."""
    problems = []
    for option in _values(argv, '-P', '--parameterize'):
        name, _, values = option.partition('=')
        words = set()
        for check in checks:
            parameter = variables.parameter(type(check), name)
            if parameter and parameter.type is str:
                words.update(parameter.values)
        if not words:
            continue
        for value in values.split(','):
            if value not in words:
                what = f'-P {name}={value}: valid are {", ".join(sorted(words))}'
                problems.append({'file': 'command line', 'what': what})
    return problems


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
        answers = dry_run.answers(asked, loaded.loaded.checks)
        with open(file, 'w') as out:
            json.dump({**plan, 'answers': answers}, out)
        sys.stdout.flush()
        os._exit(0)  # ReFrame would now run the cases

    loaded = install(taken)
    sys.argv = ['reframe', *arguments]
    cli.main()


if __name__ == '__main__':
    main()
