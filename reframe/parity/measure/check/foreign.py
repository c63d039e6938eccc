"""ReFrame tests that know nothing of parity: a mixin makes their cases cells. Their sanity function, performance
functions and references stay."""

from __future__ import annotations

import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.exceptions import ReframeError, SanityError
from reframe.core.fields import remove_convertible
from reframe.core.meta import make_test
from reframe.frontend.loader import RegressionCheckLoader

from parity.base import submission
from parity.base.reasons import Kind
from parity.judge.refs import accepted
from parity.judge.store.case_record import CaseRecord, Label, MetricRecord
from parity.measure import machine
from parity.measure.check import watched
from parity.measure.check.workload import TEST_BED, Workload
from parity.measure.rfm import adopt, variables
from parity.measure.scheduler import scheduled
from parity.site import directions, identity
from parity.site.plan import PASSED


def install() -> None:
    """Have ReFrame adopt each foreign test of a file before it makes cases. UsageError for a wrong adopt.yaml."""
    directions.stated()
    load = RegressionCheckLoader.load_from_module

    def load_from_module(loader, module):
        registry = getattr(module, '_rfm_test_registry', None)
        if registry:
            registry._tests = {_adopted(test): variants for test, variants in registry._tests.items()}
        return load(loader, module)

    RegressionCheckLoader.load_from_module = load_from_module


def _adopted(test: type) -> type:
    if issubclass(test, (Workload, Adopted)):
        return test
    # in ReFrame 4.9 a class has the prefix of its module
    prefix = {'custom_prefix': test._rfm_prefix} if hasattr(test, '_rfm_prefix') else {}
    return make_test(test.__name__, (test, Adopted), {'__doc__': test.__doc__, '__qualname__': test.__qualname__},
                     module=test.__module__, **prefix)


class _Case:
    """An adopted test as the scheduler and watch.py know a Workload."""

    standalone = False
    extra, stage_program, skip_case = Workload.extra, Workload.stage_program, Workload.skip_case

    def __init__(self, check):
        vars(self)['_check'] = check

    def __getattr__(self, name):
        if name in ('num_tasks', 'num_tasks_per_node'):     # ReFrame says what a test must set
            return getattr(self._check, name, None)
        return getattr(self._check, name)

    def __setattr__(self, name, value):
        setattr(self._check, name, value)


class Adopted(rfm.RegressionTestPlugin):
    """The part that parity adds to a foreign test: its record, its session, its accepted values."""

    parity = variable(CaseRecord, type(None), value=None, loggable=True)

    @classmethod
    def setvar(cls, name, value):
        """Set what -S says, as Workload does. The size of a night is not the test's own variable `size`."""
        if name == 'size' and remove_convertible(value) in accepted.SIZES:
            return True
        variables.remember_default(cls, name, value)
        return type(cls).setvar(cls, name, value)

    @property
    def parity_told(self):
        return adopt.Answers(self)

    @run_after('init')
    def parity_declare(self):
        self.parity = CaseRecord()
        if variables.changed(self):
            self._rfm_display_name = variables.display_name(self)

    @run_before('setup')
    def parity_enter(self):
        if not self.is_dry_run():
            from parity.measure.session import current
            told = self.parity_told
            file = sys.modules[type(self).__module__].__file__
            self.parity = CaseRecord(
                journal=current.enter().id, subsystem=told.parity_subsystem, size=told.size,
                changed=variables.changed(self), check=identity.version(file), code=identity.code(file))

    @run_after('setup')
    def parity_begin(self):
        if not self.is_dry_run():
            self._parity_metrics()
            extras = self.current_environ.extras
            self.parity.inputs = self._parity_inputs()
            self.parity.software = {'provider': extras.get('provider', ''),
                                    'identity': ' '.join(map(str, self.modules))}
            self._parity_refuse('wrong', adopt.fault(self))

    def _parity_inputs(self):
        """Return a hash of each input file: beside the test, and of the classes that it extends."""
        sources = self.sourcesdir if isinstance(self.sourcesdir, str) else ''
        hashes = identity.inputs(self.prefix, sources)
        modules = {base.__module__ for base in type(self).__mro__} - {type(self).__module__}
        files = set()
        for name in modules:
            if name.partition('.')[0] not in ('reframe', 'parity'):
                files.add(getattr(sys.modules.get(name), '__file__', None))
        of_classes = {Path(file).name: identity.code(file) for file in sorted(filter(None, files))}
        return {**hashes, **of_classes}

    def _parity_refuse(self, status, why, kind=Kind.NONE):
        if why:
            self.parity.refuse(status, why, kind)
            raise SanityError(why)

    def _parity_metrics(self):
        """Note the metrics that are known now; a metric that the plan lacks joins it."""
        from parity.measure.session import current
        place = self.current_partition.fullname
        metrics = adopt.metrics(self, place)
        with_reference = adopt.references(self, place)
        for metric in metrics:
            source = "the check's own" if metric.name in with_reference else ''
            self.parity.metrics[metric.name] = MetricRecord(metric.unit, metric.better, source)
        case = identity.case_name(self.display_name)
        stated = [vars(metric) for metric in metrics]
        current.add_metrics(case, self.current_partition.name, self.current_environ.name, stated)

    @run_before('run', always_last=True)
    def parity_queue(self):
        if self.is_dry_run():
            return
        self.env_vars['PARITY_SESSION'] = self.parity.journal
        case = _Case(self)
        available = Workload.extra(self, 'nodes')
        if available:
            needed = scheduled.nodes(case)
            if needed > available:
                place = self.current_partition.fullname
                case.skip_case(f'nodes: needs {needed}, {place} has {available}', Kind.NODES)
        self.parity.image = getattr(self.container_platform, 'image', None) or ''
        scheduled.begin(case)
        watched.begin(case)
        scheduled.demand_modules(case)
        why = submission.of_case(case)
        if why:
            raise ReframeError(why)
        if Workload.runs_here(self):
            self.parity.before = machine.reading()

    @run_after('run', always_last=True)
    def parity_after(self):
        if self.is_dry_run():
            return
        if Workload.runs_here(self):
            self.parity.after = machine.reading()
        self.parity.node = scheduled.node(self.stagedir)
        self.parity.nodes = self.job.nodelist or []      # for a session that is killed
        Workload._parity_watched(_Case(self))

    @run_before('performance', always_last=True)
    def parity_measure(self):
        if self.is_dry_run():
            return
        self._parity_metrics()
        if self.job:
            kind, why = scheduled.ended(self.job)
            self._parity_refuse('failed', why or scheduled.signalled(self.job), kind)
            self.parity.exitcode = self.job.exitcode or 0
        for name, why in adopt.measure(self, self.current_partition.fullname).items():
            self.parity.metrics[name].absent = why
        if TEST_BED in self.current_partition.features:
            label = Label('test bed', 'the partition only tries checks')
            self.parity.labels = {name: label for name in self.parity.metrics if name != PASSED}
        adopt.refer(self, self.current_partition.fullname, self._parity_accepted())

    def _parity_accepted(self):
        """The values of systems/*/references for this very case, by metric; they win over the check's own."""
        if self.parity.changed:
            return {}
        values = adopt.accepted_values(self, self.parity.size)
        accepted_here = {}
        for name, metric in self.parity.metrics.items():
            for key in (name, identity.shared(name)):
                if key in values:
                    accepted_here[name] = values[key]
                    metric.source = ''
        return accepted_here
