"""ReFrame's site configuration, assembled from systems/*/system.yaml and the detected facts."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
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
    stated = [systems.read(name) for name in ([chosen] if chosen else systems.names())]
    found = [_system(system) for system in stated]
    sites = [site_config.read(system) for system in stated if system.reframe_config]
    return {
        'systems': [system for system, _ in found],
        'environments': [environ for _, environs in found for environ in environs],
        'logging': [_logging(), *(_logging(system) for system in stated if sends and system.httpjson)],
        'general': [*_general(stated), *(options for site in sites for options in site.general)],
        'storage': [store.storage()],
        'modes': [*({'name': size, 'options': [f'-S size={size}']} for size in SIZES),
                  *(mode for site in sites for mode in site.modes if mode['name'] not in SIZES)],
    }


def _system(system: System) -> tuple[dict, list[dict]]:
    """Return one system and its environments, in ReFrame's form."""
    if system.reframe_config:
        return _of_site(system)
    machine, software = (_detected(system) if system.detect else (None, None))
    # a login node can try none of the programs of a system that is not detected
    from parity.measure.software import earlier
    found = earlier.restored(software.environs if software else [*_built(system), *_stated(system)])
    said = software.announcement if software else '; '.join(
        environ.software['lacking'] for environ in found if 'lacking' in environ.software)
    environs = [_environment(system, environ) for environ in found]
    names = [e['name'] for e in environs]
    if wrong := list(_wrong(system, names)):
        file = systems.file_of(system.name)
        raise UsageError('\n'.join(f'{file}: {why}' for why in wrong))
    return {
        'name': system.name,
        'descr': system.descr,
        'hostnames': system.hostnames,
        'modules_system': modules.name(system.modules_system),
        'prefix': str(paths.results()),
        'max_local_jobs': 1 if system.detect is True else 8,
        'partitions': [_partition(system, stated, machine, names, said) for stated in system.partitions],
    }, environs


def _of_site(system: System) -> tuple[dict, list[dict]]:
    """Return a system as the site's own configuration states it, and its environments.

    The environments of system.yaml, and what Spack has built, join the partitions whose cores and memory are
    known: there parity's own checks can size their work."""
    from parity.measure.software import earlier
    site = site_config.read(system)
    offered = [environ for environ in earlier.restored([*_built(system), *_stated(system)]) if environ.features]
    added = [_environment(system, environ) for environ in offered]
    names = [environ['name'] for environ in added]
    for name in names:
        if names.count(name) > 1 or name in site.environs:
            raise UsageError(f'{systems.file_of(system.name)}: environments: {name!r} is the name of two '
                             f'environments; {system.reframe_file} has {", ".join(site.environs)}')
    partitions = []
    for stated, part in zip(system.partitions, site.system['partitions'], strict=True):
        elsewhere = _of_other_partitions(system, stated.name)
        joined = [name for name in names if name not in elsewhere]
        if stated.extras.cores is None or stated.extras.memory_bytes is None:
            joined = []
        partitions.append({**part, 'environs': [*part.get('environs', []), *joined],
                           'extras': {**part.get('extras', {}), **_extras(system, stated)}})
    own = {**site.system, 'prefix': str(paths.results()), 'partitions': partitions}
    return own, [*site.environments, *added]


def _wrong(system: System, environs: list[str]) -> Iterator[str]:
    """Yield what would make cases disappear, or run something else than the file says."""
    yield from (f'environments: {name!r} is the name of two environments'
                for name, count in Counter(environs).items() if count > 1)
    if any(e.modules for e in system.environments) and system.modules_system == 'nomod':
        yield 'modules_system: nomod loads none of the modules that environments names; valid: envmod, lmod'
    for part in system.partitions:
        yield from (f'partition {part.name}: unknown environment {name!r}; valid: {", ".join(environs)}'
                    for name in part.environs or () if name not in (*environs, *systems.environs(system)))
        yield from (f'partition {part.name}: environs: {name!r} is for {", ".join(entry.partitions)} only'
                    for entry in system.builds if not entry.is_for(part.name)
                    for name in entry.environs if name in (part.environs or ()))
        for entry in system.environments:
            if entry.name in (part.environs or ()) and not entry.is_for(system.name, part.name):
                targets = ', '.join(entry.target_systems)
                yield f'partition {part.name}: environs: {entry.name!r} is for {targets} only'
        if system.detect is not True:  # a check would take an unknown number of cores for one
            yield from (f'partition {part.name}: extras: {fact} must be stated: it is not detected'
                        for fact in ('cores', 'memory_bytes') if getattr(part.extras, fact) is None)


def _detected(system: System):
    from parity.measure import machine
    from parity.measure.software import discover
    cache = paths.results() / 'cache'
    return (machine.load(cache / 'machine.json'),
            discover.discover(paths.root(), system.environments, cache / 'software.json', system.name,
                              system.module_commands, system.builds))


def _stated(system: System) -> Iterator:
    """Yield the environments of modules, of prefixes and of the nodes' own packages, with the codes that the site
    states. A prefix that this machine sees, too, must have their programs."""
    from parity.measure.software.programs import Environ
    for at, entry in enumerate(system.environments):
        features = [*entry.codes, 'mpi'] if entry.codes else []
        made = Environ(name=entry.name, provider='modules' if entry.modules else 'distro',
                       features=features, modules=entry.modules, software={'modules': entry.modules})
        if entry.prefix:
            from parity.measure.software import discover
            made = discover.stated_below(made, entry.prefix, systems.line(system.name, ('environments', at)))
        yield made


def _built(system: System) -> list:
    """Return what Spack has built for the system; without features before, so that its cases are `missing`."""
    from parity.measure.software import manifest
    from parity.measure.software.programs import Environ
    environs = []
    for name, surveys in manifest.surveys(system.name, system.builds, os.environ, frozenset()).items():
        environs += [_not_of_here(survey.environ) for survey in surveys] or [Environ(name=name, provider='spack')]
    return environs


def _not_of_here(environ):
    """Leave out which BLAS kernels run: the compute nodes' processor may be another than this one."""
    software = {key: value for key, value in environ.software.items() if key != 'blas'}
    env_vars = {key: value for key, value in environ.env_vars.items() if key != 'OPENBLAS_CORETYPE'}
    return environ.model_copy(update={'software': software, 'env_vars': env_vars})


#: Keys of an environment in system.yaml that ReFrame gets as they are.
_AS_STATED = {'cc', 'cxx', 'ftn', 'nvcc', 'cppflags', 'cflags', 'cxxflags', 'fflags', 'ldflags', 'prepare_cmds',
              'resources'}


def _environment(system: System, environ) -> dict:
    stated = next((entry for entry in system.environments if entry.name == environ.name),
                  StatedEnvironment(name=environ.name))
    target = _target(system, environ)
    features = list(dict.fromkeys([*environ.features, *stated.features]))
    return {
        **stated.model_dump(include=_AS_STATED, exclude_defaults=True),
        'name': environ.name,
        'features': features,
        'modules': [shlex.quote(name) for name in environ.modules],
        'env_vars': [[k, v] for k, v in (*environ.env_vars.items(), *stated.env_vars)],
        'extras': {**stated.extras, 'provider': environ.provider, 'software': environ.software,
                   'identities': {feature: environ.identity_of(feature) for feature in features},
                   **({'target': target} if target else {})},
        'target_systems': [system.name],
    }


def _target(system: System, environ) -> list[str]:
    """Return the target that an environment was built for, and the features that a job must find in a node's
    processor; [] where none is stated, and where this machine runs the jobs: parity has looked here already."""
    from parity.measure.software import target
    for at, entry in enumerate(system.builds):
        if entry.target and environ.name in entry.environs:
            target.demand(entry.target, systems.line(system.name, ('spack', at, 'target')))
            built = [package['target'] for package in environ.software.get('packages', {}).values()]
            name = built[0] if built else entry.target
            return [] if system.detect is True else [name, *target.features(name)]
    return []


#: An accounting database that does not answer ends the whole night when so many polls in a row have failed
#: (ReFrame's own: 3, which are 3 seconds): long enough for one that is restarted.
_PATIENCE = {'max_sacct_failures': 100}


def _partition(system: System, stated: Partition, machine, environs: list[str], said: str) -> dict:
    """Return a partition as stated, completed by what was detected; what is stated wins."""
    part = stated.model_dump(exclude={'extras'}, exclude_none=True, exclude_defaults=True)
    wanted = environs if stated.environs is None else stated.environs
    elsewhere = _of_other_partitions(system, stated.name)
    part['environs'] = [e for e in wanted if e in environs and e not in elsewhere]
    part['max_jobs'] = stated.max_jobs
    part['env_vars'] = [list(v) for v in stated.env_vars]
    if stated.scheduler == 'slurm':
        part['sched_options'] = {**_PATIENCE, **(stated.sched_options or {})}
    extras = _extras(system, stated)
    if system.detect is True:
        from parity.measure.machine import bounds
        part['features'] = sorted({*stated.features, *machine.features()})
        part.setdefault('processor', machine.processor())
        extras['limits'] = {k: v.model_dump() for k, v in bounds(machine, extras['limits'])[0].items()}
        extras = {'nodes': 1, 'cores': machine.cores, 'memory_bytes': machine.memory_bytes, **extras}
    if system.detect:
        extras = {'llc_bytes': machine.llc_bytes, 'llc_one_bytes': machine.llc_one_bytes,
                  'machine': machine.model_dump(mode='json'), **extras}
    if said:
        extras['announcement'] = said
    return {**part, 'extras': extras}


def _extras(system: System, stated: Partition) -> dict[str, Any]:
    """Return the extras of a partition that parity's checks use."""
    variables = {**os.environ, 'PARITY_RESULTS': str(paths.results())}
    extras = stated.extras.model_dump(exclude_none=True)
    extras['filesystems'] = {name: Template(path).safe_substitute(variables)
                             for name, path in stated.extras.filesystems.items()}
    budget = system.io_budget.model_dump(exclude_none=True)
    return {**extras, 'io_budget': budget} if budget else extras


def _of_other_partitions(system: System, partition: str) -> set[str]:
    """Return the names of the environments that are for other partitions only."""
    built = [name for entry in system.builds if not entry.is_for(partition) for name in entry.environs]
    stated = [entry.name for entry in system.environments if not entry.is_for(system.name, partition)]
    return {*built, *stated}


def _general(stated: list[System]) -> list[dict]:
    """Return ReFrame's general options, and those of systems with modules and with many jobs.

    The job script's own login shell, which knows `module`, loads modules. ReFrame would load them here too, to
    resolve conflicts, and does not start on a machine without the module system; its option turns both off.

    Poll less often if many jobs are in flight. One ends every moment, and ReFrame would ask for all states ten
    times a second: too much for an accounting database."""
    results = paths.results()
    loading = [system.name for system in stated if system.modules_system != 'nomod']
    many = [system.name for system in stated if any(p.max_jobs > 1 for p in system.partitions)]
    own = (({'resolve_module_conflicts': False, 'use_login_shell': True}, loading), ({'poll_rate_max': 1}, many))
    return [{'check_search_path': [str(paths.root() / 'checks')], 'check_search_recursive': True,
             'colorize': sys.stdout.isatty(),
             'report_file': str(results / 'reports' / 'run-{sessionid}.json'),
             'topology_prefix': str(results / 'cache' / 'topology')},
            *({**options, 'target_systems': names} for options, names in own if names)]


def _logging(system: System | None = None) -> dict:
    """Return ReFrame's logs, of all systems or of one that sends its cases to a server."""
    sent = [_httpjson(system)] if system else []
    with contextlib.suppress(OSError):      # a run says why its results cannot be kept
        paths.results().mkdir(parents=True, exist_ok=True)
    log = os.environ.get('PARITY_REFRAME_LOG') or str(paths.results() / 'reframe.log')
    return {
        'level': 'debug',
        'handlers': [
            {'type': 'stream', 'name': 'stdout', 'level': 'info', 'format': '%(message)s'},
            {'type': 'file', 'name': log, 'level': 'info', 'append': False,
             'format': '[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s'},
        ],
        'handlers_perflog': [
            {'type': 'filelog', 'basedir': 'perflogs', 'level': 'info', 'append': True,
             'prefix': '%(check_system)s/%(check_partition)s',
             'format': '|'.join(f'%(check_{c})s' for c in store.PERFLOG_COLUMNS),
             'format_perfvars': PERFVALUE},
            *sent,
        ],
        'target_systems': [system.name if system else '*'],
    }


def _httpjson(system: System) -> dict[str, Any]:
    """Return ReFrame's handler, the secrets in its headers. UsageError for a secret that is not there."""
    stated, where = system.httpjson, f'{systems.file_of(system.name)}: httpjson'
    known, headers = secrets.read(stated.secrets, where), dict(stated.extra_headers)
    for name, value in headers.items() if known else ():
        try:
            headers[name] = Template(value).substitute(known)
        except (KeyError, ValueError):
            raise UsageError(f'{where}.extra_headers.{name}: a $ must begin the name of a secret, or be '
                             f'written $$; valid: ${", $".join(sorted(known))}') from None
    return {'type': 'httpjson', 'level': 'info', **stated.model_dump(exclude={'secrets'}),
            'extra_headers': headers}
