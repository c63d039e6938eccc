"""ReFrame's site configuration, put together from systems/*/system.yaml and what was detected."""

from __future__ import annotations

import os
from string import Template
from typing import Any

from parity import paths
from parity.site import systems
from parity.site.schema import Partition, System

#: One line a case; the last column is the workload's own record as JSON. With the results
#: database written only at a session's end, these lines are the journal that an interrupted
#: session is recovered from (parity.session.recovery reads them by these names).
PERFLOG_COLUMNS = ('job_completion_time_unix', 'result', 'system', 'partition', 'environ', 'name',
                   'unique_name', 'jobid', 'fail_phase', 'perfvalues', 'parity')
PERFVALUE = ('%(check_perf_var)s=%(check_perf_value)s [%(check_perf_unit)s] '
             'ref=%(check_perf_ref)s,%(check_perf_lower_thres)s,%(check_perf_upper_thres)s;')


def site_configuration() -> dict[str, Any]:
    """The dictionary that reframe/settings.py hands to ReFrame. UsageError for a bad system file."""
    found = [_system(systems.read(name)) for name in systems.names()]
    return {
        'systems': [system for system, _ in found],
        'environments': [environ for _, environs in found for environ in environs],
        'logging': [_logging()],
        'general': [_general()],
        'storage': [{'enable': True, 'backend': 'sqlite', 'sqlite_db_file': str(paths.database())}],
        'modes': [{'name': size, 'options': [f'-S size={size}']}
                  for size in ('quick', 'nightly', 'acceptance')],
    }


def _system(system: System) -> tuple[dict, list[dict]]:
    """One system and its environments, in ReFrame's form."""
    machine, software = (_detected(system) if system.detect else (None, None))
    environs = [] if software is None else [_environment(system, e) for e in software.environs]
    names = [e['name'] for e in environs]
    return {
        'name': system.name,
        'descr': system.descr,
        'hostnames': system.hostnames,
        'modules_system': system.modules_system,
        'prefix': str(paths.results()),
        'max_local_jobs': 1 if system.detect else 8,
        'partitions': [_partition(p, machine, names, software) for p in system.partitions],
    }, environs


def _detected(system: System):
    from parity import machine, software
    cache = paths.results() / 'cache'
    return (machine.load(cache / 'machine.json'),
            software.discover(paths.root(), system.environments, cache / 'software.json', system.name))


def _environment(system: System, environ) -> dict:
    return {
        'name': environ.name,
        'features': list(environ.features),
        'modules': list(environ.modules),
        'env_vars': [[k, v] for k, v in environ.env_vars.items()],
        'extras': {'provider': environ.provider, 'identity': environ.identity,
                   'software': environ.software},
        'target_systems': [system.name],
    }


def _partition(stated: Partition, machine, environs: list[str], software) -> dict:
    """A partition as stated, completed by what was detected; what is stated wins."""
    part = stated.model_dump(exclude={'extras'}, exclude_none=True, exclude_defaults=True)
    part.setdefault('environs', environs)
    part['max_jobs'] = stated.max_jobs
    part['env_vars'] = [list(v) for v in stated.env_vars]
    extras = stated.extras.model_dump(exclude_none=True)
    extras['filesystems'] = {n: _expand(p) for n, p in stated.extras.filesystems.items()}
    if machine is not None:
        part['features'] = sorted({*stated.features, *machine.features()})
        if not stated.processor:
            part['processor'] = machine.processor()
        extras = {**_with_machine(extras, machine), 'announcement': software.announcement}
    part['extras'] = extras
    return part


def _with_machine(extras: dict, machine) -> dict:
    from parity.machine import limits
    known = limits(machine, extras['limits'])
    facts = {'cores': machine.cores, 'memory_bytes': machine.memory_bytes,
             'llc_bytes': machine.llc_bytes, 'llc_one_bytes': machine.llc_one_bytes,
             'machine': machine.model_dump(mode='json')}
    return {**facts, **extras, 'limits': {k: v.model_dump() for k, v in known.items()}}


def _expand(path: str) -> str:
    """A file system's path with $PARITY_RESULTS and the environment's variables filled in."""
    return Template(path).safe_substitute({**os.environ, 'PARITY_RESULTS': str(paths.results())})


def _general() -> dict:
    results = paths.results()
    return {
        'check_search_path': [str(paths.root() / 'checks')],
        'check_search_recursive': True,
        'report_file': str(results / 'reports' / 'run-{sessionid}.json'),
        'topology_prefix': str(results / 'cache' / 'topology'),
    }


def _logging() -> dict:
    log = os.environ.get('PARITY_REFRAME_LOG') or str(paths.results() / 'reframe.log')
    return {
        'level': 'debug',
        'handlers': [
            {'type': 'stream', 'name': 'stdout', 'level': 'info', 'format': '%(message)s'},
            {'type': 'file', 'name': log, 'level': 'debug', 'append': False,
             'format': '[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s'},
        ],
        'handlers_perflog': [
            {'type': 'filelog', 'basedir': 'perflogs', 'level': 'info', 'append': True,
             'prefix': '%(check_system)s/%(check_partition)s',
             'format': '|'.join(f'%(check_{c})s' for c in PERFLOG_COLUMNS),
             'format_perfvars': PERFVALUE},
        ],
    }
