"""ReFrame's internals that parity.rfm relies on: what ReFrame does alone, what it does with parity, what may have changed."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import logging
import warnings
from functools import reduce
from types import SimpleNamespace

import pytest
import reframe.core.warnings as reframe_warnings
from reframe.core.schedulers import local, pbs
from reframe.frontend import reporting
from reframe.utility import jsonext, osext

from parity.base.reasons import LONGEST
from parity.rfm import patches

#: Each file of parity.rfm, the functions of ReFrame 4.10 that it changes, calls or imitates, and a digest of their text.
RELIED = {
    'patches.py': {
        'core.schedulers.local:LocalJobScheduler.submit': '3268708cdf63', 'core.schedulers.pbs:PbsJobScheduler.emit_preamble': 'dab1e3a66260',
        'core.schedulers.slurm:_SlurmJob.nodelist.fget': '4eb8223e8e7b', 'core.warnings:user_deprecation_warning': '894e0ce217c3',
        'core.pipeline:_ReferenceDict._read_ref_file': 'f7430affe813', 'core.logging:shutdown': '6f98f8101b73',
        'frontend.reporting:RunReport.update_run_stats': '7590ce4f82f5', 'utility.jsonext:encode': 'f92916182c1e'},
    'queues.py': {
        'core.schedulers.pbs:PbsJobScheduler': 'eed54de4fff8',
        'core.schedulers.slurm:SlurmJobScheduler': '00f408802cef', 'core.schedulers.slurm:SqueueJobScheduler': '0f04cff8f873',
        'core.schedulers.pbs:PbsJobScheduler.submit': '27c582c949a6', 'core.schedulers.slurm:SlurmJobScheduler.submit': '24d1ed951a46'},
    'capture.py': {
        'frontend.cli:main': 'ffec5c0829b9', 'frontend.executors:generate_testcases': '64333a9a6fbf', 'frontend.executors:Runner.__init__': 'c367047e927f',
        'frontend.dependencies:build_deps': '64333a9a6fbf', 'frontend.dependencies:toposort': '64333a9a6fbf',
        'frontend.loader:RegressionCheckLoader': '96b6e896f33a', 'frontend.argparse:ArgumentParser.parse_args': '4baeee387995'},
    'variables.py': {
        'core.meta:RegressionTestMeta.setvar': '82fa5069f0c3', 'core.variables:TestVar.__init__': '167371cc1e33',
        'core.fields:remove_convertible': '5a2130780d2c', 'core.fields:make_convertible': 'bc457e2faa22'},
    'store.py': {
        'frontend.reporting.storage:StorageBackend.default': 'f1d80dab14fb', 'frontend.reporting.storage:_SqliteStorage': '079af792d26c',
        'core.runtime:temp_runtime': '8cff57ea5bd0', 'core.runtime:init_runtime': '6ef4f5d0cb0f'},
}


def digest(name: str) -> str:
    """Return a digest of the text of a function or class, its white space aside."""
    module, _, path = name.partition(':')
    found = reduce(getattr, path.split('.'), importlib.import_module(f'reframe.{module}'))
    return hashlib.sha256(''.join(inspect.getsource(found).split()).encode()).hexdigest()[:12]


@pytest.mark.parametrize('file, name, known', [(f, n, d) for f, names in RELIED.items() for n, d in names.items()])
def test_reframe_has_not_changed_what_parity_relies_on(file, name, known):
    now = digest(name)
    assert now == known, f'ReFrame changed reframe.{name}: see whether reframe/parity/rfm/{file} still holds; its digest is {now} then'


@pytest.fixture
def saved(monkeypatch):
    """Put back each name that the patches change."""
    for owner, name in ((local, 'osext'), (pbs.PbsJobScheduler, 'emit_preamble'), (reframe_warnings, 'inspect'),
                        (reporting, 'what'), (jsonext, 'encode'), (logging, 'raiseExceptions')):
        monkeypatch.setattr(owner, name, getattr(owner, name))


def test_a_script_below_a_folder_with_a_space_starts(tmp_path, saved):
    folder = tmp_path / 'my results'
    folder.mkdir()
    script = folder / 'job.sh'
    script.write_text('#!/bin/sh\nexit 7\n')
    script.chmod(0o755)
    job = SimpleNamespace(workdir=str(folder), name='x', stdout='out', stderr='err', time_limit=None)
    scheduler = SimpleNamespace(_format_option=str, _emit_lselect_option=lambda job: [])

    def started():
        process = local.osext.run_command_async(str(script))
        process.communicate()
        return process.returncode
    patches.allow_spaces(tmp_path)
    assert local.osext is osext
    with pytest.raises(FileNotFoundError):
        started()
    patches.allow_spaces(folder)
    assert started() == 7 and local.osext.run_command is osext.run_command
    assert f"cd '{folder}'" in pbs.PbsJobScheduler.emit_preamble(scheduler, job)


def test_the_caller_of_a_silenced_warning_is_not_looked_for(saved, monkeypatch):
    looked = []
    monkeypatch.setattr(inspect, 'stack', lambda: looked.append(1) or [None] * 4)
    patches.skip_silenced_warnings()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', category=reframe_warnings.ReframeDeprecationWarning)
        assert reframe_warnings.inspect.stack() == [] and not looked
        warnings.simplefilter('default')
        assert reframe_warnings.inspect.stack() and looked


def test_a_reason_of_megabytes_is_cut_in_the_report(saved):
    failure = ValueError('x' * 1000000)
    assert len(jsonext.encode(failure)) > 100000 or len(jsonext.dumps({'e': failure})) > 100000
    patches.cut_reasons()
    assert len(reporting.what(type(failure), failure, None)) <= LONGEST
    assert len(jsonext.encode(failure)) <= LONGEST


def test_a_log_on_a_full_disk_prints_no_traceback(saved):
    logging.raiseExceptions = True
    patches.keep_logs_quiet()
    assert not logging.raiseExceptions
