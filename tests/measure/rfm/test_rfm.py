"""ReFrame's internals that parity.measure.rfm relies on: what may have changed."""

import hashlib
import importlib
import inspect
from functools import reduce

import pytest
import reframe

#: Each file of parity.measure.rfm, the functions of ReFrame 4.9 and 4.10 that it changes, calls or imitates, and a digest of their text.
RELIED = {
    'patches.py': {
        'core.schedulers.local:LocalJobScheduler.submit': '3268708cdf63', 'core.schedulers.pbs:PbsJobScheduler.emit_preamble': 'dab1e3a66260',
        'core.schedulers.slurm:_SlurmJob.nodelist.fget': '4eb8223e8e7b', 'core.warnings:user_deprecation_warning': '894e0ce217c3',
        'core.warnings:suppress_deprecations': '7c073d7afb48', 'core.fields:DeprecatedField.__get__': '6de3ee23dcab',
        'core.variables:VarSpace.join': 'c9f0d676ce85', 'core.variables:TestVar.reset_target': '26ba71e2403f', 'core.variables:VarSpace._inject': '37c127828315', 'core.pipeline:_ReferenceDict._read_ref_file': 'f7430affe813', 'core.logging:shutdown': '6f98f8101b73', 'core.logging:_create_file_handler': '76dfe80717dc',
        'frontend.reporting:RunReport.update_run_stats': '7590ce4f82f5', 'utility.jsonext:encode': 'f92916182c1e'},
    'queues.py': {
        'core.schedulers.pbs:PbsJobScheduler': 'eed54de4fff8',
        'core.schedulers.slurm:SlurmJobScheduler': '00f408802cef', 'core.schedulers.slurm:SqueueJobScheduler': '0f04cff8f873',
        'core.schedulers.pbs:PbsJobScheduler.submit': '27c582c949a6', 'core.schedulers.slurm:SlurmJobScheduler.submit': '24d1ed951a46'},
    'capture.py': {
        'frontend.cli:main': 'ffec5c0829b9', 'frontend.executors:generate_testcases': '64333a9a6fbf', 'frontend.executors:Runner.__init__': 'c367047e927f',
        'core.runtime:valid_sysenv_comb': '2ef1452c782f', 'frontend.dependencies:build_deps': '64333a9a6fbf', 'frontend.dependencies:toposort': '64333a9a6fbf',
        'frontend.loader:RegressionCheckLoader': '96b6e896f33a', 'frontend.argparse:ArgumentParser.parse_args': '4baeee387995'},
    'variables.py': {
        'core.meta:RegressionTestMeta.setvar': '82fa5069f0c3', 'core.variables:TestVar.__init__': '167371cc1e33',
        'core.fields:remove_convertible': '5a2130780d2c', 'core.fields:make_convertible': 'bc457e2faa22'},
    'store.py': {
        'frontend.reporting.storage:StorageBackend.default': 'f1d80dab14fb', 'frontend.reporting.storage:_SqliteStorage': '079af792d26c',
        'core.runtime:temp_runtime': '8cff57ea5bd0', 'core.runtime:init_runtime': '6ef4f5d0cb0f'},
}
#: The digests of 4.9 that differ; '': it has no such thing.
OF_4_9 = {
    'core.pipeline:_ReferenceDict._read_ref_file': '',
    'core.schedulers.slurm:SlurmJobScheduler': 'd44b3cea782c', 'core.schedulers.slurm:SqueueJobScheduler': 'a34b57654584',
    'frontend.reporting.storage:_SqliteStorage': 'c0d59ee896a1',
}


def digest(name: str) -> str:
    """Return a digest of the text of a function or class, its white space aside."""
    module, _, path = name.partition(':')
    found = reduce(getattr, path.split('.'), importlib.import_module(f'reframe.{module}'))
    return hashlib.sha256(''.join(inspect.getsource(found).split()).encode()).hexdigest()[:12]


@pytest.mark.parametrize('file, name, known', [(f, n, d) for f, names in RELIED.items() for n, d in names.items()])
def test_reframe_has_not_changed_what_parity_relies_on(file, name, known):
    if reframe.VERSION.startswith('4.9.'):
        known = OF_4_9.get(name, known)
        if not known:
            return
    now = digest(name)
    assert now == known, f'ReFrame changed reframe.{name}: see whether reframe/parity/measure/rfm/{file} still holds; its digest is {now} then'
