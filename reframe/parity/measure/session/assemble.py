"""ReFrame's site configuration, assembled from systems/*/system.yaml and the detected facts."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from string import Template
from typing import Any

from parity.base import paths
from parity.base.errors import UsageError
from parity.judge.refs.accepted import SIZES
from parity.measure.rfm import modules, site_config, store
from parity.site import secrets, systems
from parity.site.systems import Partition, StatedEnvironment, System

PERFVALUE = ('%(check_perf_var)s=%(check_perf_value)s [%(check_perf_unit)s] '
             'ref=%(check_perf_ref)s,%(check_perf_lower_thres)s,%(check_perf_upper_thres)s;')


def site_configuration(chosen: str = '', sends: bool = False) -> dict[str, Any]:
    """Return the dictionary that reframe/settings.py hands to ReFrame. UsageError for a bad system file.

    It has the system that ReFrame was told to take, all for ''. A run ``sends`` its cases to the server that the
    system names."""
    names = [chosen] if chosen else systems.names()
    stated = [systems.read(name) for name in names]
    configuration = {
        'systems': [],
        'environments': [],
        'logging': [_logging()],
        'general': _general(stated),
        'storage': [store.storage()],
        'modes': [{'name': size, 'options': [f'-S size={size}']} for size in SIZES],
    }
    for system in stated:
        parts = _parts(system)
        configuration['systems'].append(parts.system)
        configuration['environments'] += parts.environments
        if sends and system.httpjson:
            configuration['logging'].append(_logging(system))
        if system.reframe_config:
            site = site_config.read(system)
            configuration['general'] += site.general
            configuration['modes'] += [mode for mode in site.modes if mode['name'] not in SIZES]
    return configuration


@dataclass(frozen=True)
class SystemParts:
    """A system and its environments, in ReFrame's form."""

    system: dict[str, Any]
    environments: list[dict[str, Any]]


def _parts(system: System) -> SystemParts:
    return _of_site(system) if system.reframe_config else _assembled(system)


def _assembled(system: System) -> SystemParts:
    """Return a system as system.yaml states it, and its environments."""
    # a login node can try none of the programs of a system that is not detected
    from parity.measure.software import earlier
    if system.detect:
        machine, software = _detected(system)
        environs = earlier.restored(software.environs)
        announcement = software.announcement
    else:
        machine = None
        environs = earlier.restored([*_built(system), *_stated(system)])
        lacking = [environ.software['lacking'] for environ in environs if 'lacking' in environ.software]
        announcement = '; '.join(lacking)
    environments = [_environment(system, environ) for environ in environs]
    names = [environment['name'] for environment in environments]
    problems = list(_wrong(system, names))
    if problems:
        file = systems.file_of(system.name)
        raise UsageError('\n'.join(f'{file}: {why}' for why in problems))
    partitions = [_partition(system, stated, machine, names, announcement) for stated in system.partitions]
    return SystemParts({
        'name': system.name,
        'descr': system.descr,
        'hostnames': system.hostnames,
        'modules_system': modules.name(system.modules_system),
        'prefix': str(paths.results()),
        'max_local_jobs': 1 if system.detect is True else 8,
        'partitions': partitions,
    }, environments)


def _of_site(system: System) -> SystemParts:
    """Return a system as the site's own configuration states it, and its environments.

    The environments of system.yaml, and what Spack has built, join the partitions whose cores and memory are
    known: there parity's own checks can size their work."""
    from parity.measure.software import earlier
    site = site_config.read(system)
    environs = earlier.restored([*_built(system), *_stated(system)])
    added = [_environment(system, environ) for environ in environs if environ.features]
    names = [environment['name'] for environment in added]
    for name in names:
        if names.count(name) > 1 or name in site.environs:
            raise UsageError(f'{systems.file_of(system.name)}: environments: {name!r} is the name of two '
                             f'environments; {system.reframe_file} has {", ".join(site.environs)}')
    partitions = []
    for stated, part in zip(system.partitions, site.system['partitions'], strict=True):
        joining = []
        if stated.extras.cores is not None and stated.extras.memory_bytes is not None:
            elsewhere = _of_other_partitions(system, stated.name)
            joining = [name for name in names if name not in elsewhere]
        joined = [*part.get('environs', []), *joining]
        extras = {**part.get('extras', {}), **_extras(system, stated)}
        partitions.append({**part, 'environs': joined, 'extras': extras})
    own = {**site.system, 'prefix': str(paths.results()), 'partitions': partitions}
    return SystemParts(own, [*site.environments, *added])


def _wrong(system: System, environs: list[str]) -> Iterator[str]:
    """Yield what would make cases disappear, or run something else than the file says."""
    for name, count in Counter(environs).items():
        if count > 1:
            yield f'environments: {name!r} is the name of two environments'
    names_modules = any(environment.modules for environment in system.environments)
    if names_modules and system.modules_system == 'nomod':
        yield 'modules_system: nomod loads none of the modules that environments names; valid: envmod, lmod'
    for part in system.partitions:
        for why in _wrong_partition(system, part, environs):
            yield f'partition {part.name}: {why}'


def _wrong_partition(system: System, part: Partition, environs: list[str]) -> Iterator[str]:
    wanted = part.environs or ()
    for name in wanted:
        if name not in environs and name not in systems.environs(system):
            yield f'unknown environment {name!r}; valid: {", ".join(environs)}'
    for entry in system.builds:
        for name in entry.environs:
            if name in wanted and not entry.is_for(part.name):
                yield f'environs: {name!r} is for {", ".join(entry.partitions)} only'
    for entry in system.environments:
        if entry.name in wanted and not entry.is_for(system.name, part.name):
            yield f'environs: {entry.name!r} is for {", ".join(entry.target_systems)} only'
    if system.detect is not True:  # a check would take an unknown number of cores for one
        for fact in ('cores', 'memory_bytes'):
            if getattr(part.extras, fact) is None:
                yield f'extras: {fact} must be stated: it is not detected'


def _detected(system: System):
    from parity.measure import machine
    from parity.measure.software import discover
    cache = paths.results() / 'cache'
    here = machine.load(cache / 'machine.json')
    software = discover.discover(paths.root(), system.environments, cache / 'software.json', system.name,
                                 system.module_commands, system.builds)
    return here, software


def _stated(system: System) -> Iterator:
    """Yield the environments of modules, of prefixes and of the nodes' own packages, with the codes that the site
    states. A prefix that this machine sees, too, must have their programs."""
    from parity.measure.software.programs import Environ
    for index, entry in enumerate(system.environments):
        environ = Environ(
            name=entry.name,
            provider='modules' if entry.modules else 'distro',
            features=[*entry.codes, 'mpi'] if entry.codes else [],
            modules=entry.modules,
            software={'modules': entry.modules})
        if entry.prefix:
            from parity.measure.software import discover
            where = systems.line(system.name, ('environments', index))
            environ = discover.stated_below(environ, entry.prefix, where)
        yield environ


def _built(system: System) -> list:
    """Return what Spack has built for the system; without features before, so that its cases are `missing`."""
    from parity.measure.software import manifest
    from parity.measure.software.programs import Environ
    environs = []
    for name, surveys in manifest.surveys(system.name, system.builds, os.environ, frozenset()).items():
        if surveys:
            environs += [_not_of_here(survey.environ) for survey in surveys]
        else:
            environs.append(Environ(name=name, provider='spack'))
    return environs


def _not_of_here(environ):
    """Leave out which BLAS kernels run: the compute nodes' processor may be another than this one."""
    software = dict(environ.software)
    software.pop('blas', None)
    env_vars = dict(environ.env_vars)
    env_vars.pop('OPENBLAS_CORETYPE', None)
    return environ.model_copy(update={'software': software, 'env_vars': env_vars})


#: Keys of an environment in system.yaml that ReFrame gets as they are.
_AS_STATED = {'cc', 'cxx', 'ftn', 'nvcc', 'cppflags', 'cflags', 'cxxflags', 'fflags', 'ldflags', 'prepare_cmds',
              'resources'}


def _environment(system: System, environ) -> dict:
    """Return an environment in ReFrame's form, with the keys that system.yaml states for it."""
    same_name = [entry for entry in system.environments if entry.name == environ.name]
    stated = same_name[0] if same_name else StatedEnvironment(name=environ.name)
    features = list(dict.fromkeys([*environ.features, *stated.features]))
    identities = {feature: environ.identity_of(feature) for feature in features}
    extras = {
        **stated.extras,
        'provider': environ.provider,
        'software': environ.software,
        'identities': identities,
    }
    target = _target(system, environ)
    if target:
        extras['target'] = target
    modules = [shlex.quote(name) for name in environ.modules]
    env_vars = [*environ.env_vars.items(), *stated.env_vars]
    as_stated = stated.model_dump(include=_AS_STATED, exclude_defaults=True)
    return {
        **as_stated,
        'name': environ.name,
        'features': features,
        'modules': modules,
        'env_vars': [list(pair) for pair in env_vars],
        'extras': extras,
        'target_systems': [system.name],
    }


def _target(system: System, environ) -> list[str]:
    """Return the target that an environment was built for, and the features that a job must find in a node's
    processor; [] where none is stated, and where this machine runs the jobs: parity has looked here already."""
    from parity.measure.software import target
    for index, entry in enumerate(system.builds):
        if not entry.target or environ.name not in entry.environs:
            continue
        target.demand(entry.target, systems.line(system.name, ('spack', index, 'target')))
        if system.detect is True:
            return []
        packages = list(environ.software.get('packages', {}).values())
        name = packages[0]['target'] if packages else entry.target
        return [name, *target.features(name)]
    return []


#: An accounting database that does not answer ends the whole night when so many polls in a row have failed
#: (ReFrame's own: 3, which are 3 seconds): long enough for one that is restarted.
_PATIENCE = {'max_sacct_failures': 100}


def _partition(system: System, stated: Partition, machine, environs: list[str], announcement: str) -> dict:
    """Return a partition as stated, completed by what was detected; what is stated wins."""
    part = stated.model_dump(exclude={'extras'}, exclude_none=True, exclude_defaults=True)
    wanted = environs if stated.environs is None else stated.environs
    elsewhere = _of_other_partitions(system, stated.name)
    part['environs'] = [name for name in wanted if name in environs and name not in elsewhere]
    part['max_jobs'] = stated.max_jobs
    part['env_vars'] = [list(pair) for pair in stated.env_vars]
    if stated.scheduler == 'slurm':
        part['sched_options'] = {**_PATIENCE, **(stated.sched_options or {})}
    extras = _extras(system, stated)
    if system.detect is True:
        part['features'] = sorted({*stated.features, *machine.features()})
        part.setdefault('processor', machine.processor())
        extras['limits'] = _limits(machine, extras['limits'])
        extras = {'nodes': 1, 'cores': machine.cores, 'memory_bytes': machine.memory_bytes, **extras}
    if system.detect:
        caches = {'llc_bytes': machine.llc_bytes, 'llc_one_bytes': machine.llc_one_bytes}
        extras = {**caches, 'machine': machine.model_dump(mode='json'), **extras}
    if announcement:
        extras['announcement'] = announcement
    return {**part, 'extras': extras}


def _limits(machine, stated: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds of a machine; those that are stated win."""
    from parity.measure.machine import bounds
    limits, _ = bounds(machine, stated)
    return {name: limit.model_dump() for name, limit in limits.items()}


def _extras(system: System, stated: Partition) -> dict[str, Any]:
    """Return the extras of a partition that parity's checks use."""
    extras = stated.extras.model_dump(exclude_none=True)
    variables = {**os.environ, 'PARITY_RESULTS': str(paths.results())}
    for name, path in stated.extras.filesystems.items():
        extras['filesystems'][name] = Template(path).safe_substitute(variables)
    budget = system.io_budget.model_dump(exclude_none=True)
    if budget:
        extras['io_budget'] = budget
    return extras


def _of_other_partitions(system: System, partition: str) -> set[str]:
    """Return the names of the environments that are for other partitions only."""
    names = {entry.name for entry in system.environments if not entry.is_for(system.name, partition)}
    for entry in system.builds:
        if not entry.is_for(partition):
            names.update(entry.environs)
    return names


def _general(stated: list[System]) -> list[dict]:
    """Return ReFrame's general options, and those of systems with modules and with many jobs.

    The job script's own login shell, which knows `module`, loads modules. ReFrame would load them here too, to
    resolve conflicts, and does not start on a machine without the module system; its option turns both off.

    Poll less often if many jobs are in flight. One ends every moment, and ReFrame would ask for all states ten
    times a second: too much for an accounting database."""
    results = paths.results()
    general = [{
        'check_search_path': [str(paths.root() / 'checks')],
        'check_search_recursive': True,
        'colorize': sys.stdout.isatty(),
        'report_file': str(results / 'reports' / 'run-{sessionid}.json'),
        'topology_prefix': str(results / 'cache' / 'topology'),
    }]
    with_modules = [system.name for system in stated if system.modules_system != 'nomod']
    if with_modules:
        by_login_shell = {'resolve_module_conflicts': False, 'use_login_shell': True}
        general.append({**by_login_shell, 'target_systems': with_modules})
    with_many_jobs = [system.name for system in stated if any(part.max_jobs > 1 for part in system.partitions)]
    if with_many_jobs:
        general.append({'poll_rate_max': 1, 'target_systems': with_many_jobs})
    return general


def _logging(system: System | None = None) -> dict:
    """Return ReFrame's logs, of all systems or of one that sends its cases to a server."""
    with contextlib.suppress(OSError):      # a run says why its results cannot be kept
        paths.results().mkdir(parents=True, exist_ok=True)
    log = os.environ.get('PARITY_REFRAME_LOG') or str(paths.results() / 'reframe.log')
    terminal = {'type': 'stream', 'name': 'stdout', 'level': 'info', 'format': '%(message)s'}
    file = {
        'type': 'file', 'name': log, 'level': 'info', 'append': False,
        'format': '[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s',
    }
    perflog = {
        'type': 'filelog', 'basedir': 'perflogs', 'level': 'info', 'append': True,
        'prefix': '%(check_system)s/%(check_partition)s',
        'format': '|'.join(f'%(check_{column})s' for column in store.PERFLOG_COLUMNS),
        'format_perfvars': PERFVALUE,
    }
    return {
        'level': 'debug',
        'handlers': [terminal, file],
        'handlers_perflog': [perflog, _httpjson(system)] if system else [perflog],
        'target_systems': [system.name if system else '*'],
    }


def _httpjson(system: System) -> dict[str, Any]:
    """Return ReFrame's handler, the secrets in its headers. UsageError for a secret that is not there."""
    stated = system.httpjson
    where = f'{systems.file_of(system.name)}: httpjson'
    headers = dict(stated.extra_headers)
    values = secrets.read(stated.secrets, where)
    if values:
        headers = {name: _with_secrets(header, values, f'{where}.extra_headers.{name}')
                   for name, header in headers.items()}
    handler = {'type': 'httpjson', 'level': 'info', **stated.model_dump(exclude={'secrets'})}
    handler['extra_headers'] = headers
    return handler


def _with_secrets(header: str, values: dict[str, str], where: str) -> str:
    """Return a header with the secrets in place of their names: $NAME."""
    try:
        return Template(header).substitute(values)
    except (KeyError, ValueError):
        valid = ', '.join(f'${name}' for name in sorted(values))
        raise UsageError(f'{where}: a $ must begin the name of a secret, or be written $$; valid: {valid}'
                         ) from None
