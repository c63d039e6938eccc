"""The mixin under every check.

A check states what it needs (``needs``), what it measures (``metrics``) and how the text that
the program printed becomes figures (``parse``). This mixin makes ReFrame refuse what ReFrame
alone lets pass: an output that ends early, a bad answer, a declared metric that is absent or
not finite, an exit code other than 0."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, sanity_function, variable
from reframe.core.exceptions import ReframeError, SanityError

from parity.base import codes, paths, reasons, submission
from parity.base.figures import amount, figure
from parity.base.limits import measured
from parity.base.reasons import Kind
from parity.judge.store.case_record import CaseRecord, Label, MetricRecord
from parity.measure import machine
from parity.measure.check import sizing, watched
from parity.measure.check.program import Program
from parity.measure.check.reader import Alone, Incomplete, Unread, Wrong
from parity.measure.rfm import adopt, variables
from parity.measure.scheduler import placement, scheduled
from parity.site import identity, systems

#: The feature of a partition that tries checks: its figures are never judged, proposed or compared.
TEST_BED = 'test-bed'


@functools.cache
def _subsystem(prefix: str) -> str:
    folder = Path(prefix)
    return (folder.parent if codes.check_of(folder).is_file() else folder).name


class Workload(rfm.RegressionTestPlugin):
    """The part that all checks share. ReFrame's results database keeps the figures.

    ``parity`` is kept beside the figures of a case: units, directions and
    limits of its metrics, labels, the derivation of its sizes, the software's identity, load and
    steal before and after."""

    #: Features that an environment must offer; the code's own if not stated.
    needs = frozenset()
    #: The feature that takes the place of one in ``needs`` where an environment offers it: {'one': 'better'}.
    instead = {}
    #: Features that the partition must have, e.g. {'gpu'}.
    partition_needs = frozenset()
    #: tuple of Metric
    metrics = ()
    #: What makes two programs of one, found only when it has run: name -> values. References name it in their
    #: $index beside `size`, and no runs of which it differs are compared.
    variants = {}
    #: Variables that are sizes: a process has as many bytes in memory.
    in_memory = ()
    #: Programs of ours that the job starts (`stage_program`).
    programs = ()
    #: It is asked by itself (parity.measure.rfm.dry_run): it shares no budget with other cases.
    by_itself = False
    #: The script is for somebody who has neither parity nor its builds (parity.measure.jobs.standalone).
    standalone = False

    size = variable(typ.Str[r'quick|nightly|acceptance'], value='quick', loggable=True)
    parity = variable(CaseRecord, type(None), value=None, loggable=True)     # ReFrame copies a value for each case

    @classmethod
    def setvar(cls, name, value):
        """ReFrame sets here what -S says: the variable's default is kept, because a change makes another case."""
        variables.remember_default(cls, name, value)
        return type(cls).setvar(cls, name, value)

    @run_after('init')
    def parity_declare(self):
        self.parity = CaseRecord()
        self._rfm_display_name = variables.display_name(self)
        self.tags = {*self.tags, self.parity_subsystem, *self.parity_size_tags()}
        code = None if self.needs else self._parity_code
        if code:
            self.needs = frozenset({code.feature})
        self.parity_claim()

    def beyond_memory(self, partition):
        """Return the first of ``in_memory`` that is more than a node's memory, and what is valid; '' for none."""
        memory = partition.extras.get('memory_bytes')
        if not memory:
            return '', ''
        for name in self.in_memory:
            text = getattr(self, name)
            amounts = filter(None, map(amount, text.split(',')))
            if any(bytes_ > memory for bytes_, _ in amounts):
                most = f'{figure(memory, "B")}, the memory of a node of {partition.name}'
                return name, f'{text!r}: must be at most {most}'
        return '', ''

    def node_count(self):
        """The nodes that a case takes; None where the partition decides."""
        where = getattr(self, 'where', '')
        if where == '':
            return int(getattr(self, 'nodes', 1))
        return {'within': 1, 'between': 2}.get(where)

    def parity_size_tags(self):
        """1_node, 2_nodes, ...; and ci for what is quick on one node."""
        nodes = self.node_count()
        if nodes:
            yield f'{nodes}_node{"s" if nodes > 1 else ""}'
        if nodes == 1 and self.size == 'quick':
            yield 'ci'

    def not_run(self):
        """Metrics that a case of this size never has: name -> reason. The plan knows them before the case runs."""
        return {}

    def metrics_on(self, partition):
        """The metrics that a case has on ``partition``: the plan asks before the case is set up."""
        return self.metrics

    def limit_to(self, limit, unit):
        """Stand the metrics in ``unit`` beside a limit that this case has."""
        metrics = []
        for metric in self.metrics:
            metrics.append(dataclasses.replace(metric, limit=limit) if metric.unit == unit else metric)
        self.metrics = tuple(metrics)

    def parity_changed(self):
        """The variables that the command line set away from the check's default: name -> value, as text."""
        return variables.changed(self)

    def parity_claim(self):
        """State in ReFrame's form which partitions and environments the check needs."""
        self.valid_systems = [_claim(self.partition_needs)]
        self.valid_prog_environs = list(dict.fromkeys([_claim(self.needs), _claim(self._instead())]))

    def _instead(self):
        return frozenset(self.instead.get(feature, feature) for feature in self.needs)

    def needs_of(self, environ):
        """Return the features that a case in this environment uses: those in place of others where it has them."""
        better = self._instead()
        return better if better <= {*environ.features} else self.needs

    @property
    def _parity_file(self):
        return sys.modules[type(self).__module__].__file__

    @property
    def _parity_code(self):
        """The code whose folder the check's file is in; None for a check outside."""
        return codes.stated_beside(self._parity_file)

    @property
    def parity_subsystem(self):
        """The first folder below checks/: compute, memory, network, storage, gpu."""
        return _subsystem(self.prefix)

    @run_after('setup')
    def parity_begin(self):
        """Enter the session (its first case opens it) and note what the case stands on."""
        self.needs = self.needs_of(self.current_environ)
        if self.is_dry_run():
            return
        from parity.measure.session import current
        session = current.enter()
        needs = sorted(self.needs)
        extras = self.current_environ.extras
        identities = [extras.get('identities', {}).get(need, '') for need in needs]
        file = self._parity_file
        self.parity = CaseRecord(
            journal=session.id, subsystem=self.parity_subsystem, size=self.size, needs=needs,
            metrics={metric.name: self._parity_metric(metric) for metric in self.metrics},
            software={'provider': extras.get('provider', ''), 'identity': '+'.join(identities)},
            left_out=self.not_run(), changed=self.parity_changed(), inputs={},
            check=identity.version(file), code=identity.code(file))
        self.env_vars['PARITY_SESSION'] = session.id
        self._parity_reference()

    @run_after('setup')
    def parity_ask_for_huge_pages(self):
        """Let malloc ask for huge pages where the code gains by them: a kernel grants them under `madvise`, too.
        A site's own GLIBC_TUNABLES stands. glibc before 2.35 does not know the tunable, and goes on without."""
        code = self._parity_code
        if not code or not code.huge_pages:
            return
        stated = {**self.current_partition.local_env.env_vars, **self.current_environ.env_vars, **self.env_vars}
        if 'GLIBC_TUNABLES' not in stated:
            self.env_vars['GLIBC_TUNABLES'] = 'glibc.malloc.hugetlb=1'

    @run_after('setup')
    def parity_refuse_words(self):
        """Leave the case out where -P gives a parameter a word that the check does not have."""
        if unknown := variables.undeclared(self):
            self.skip_case(unknown)

    def _parity_metric(self, metric):
        """Unit, direction and bound of a metric, as the database keeps them."""
        limits = self.extra('limits') or {}
        limit = limits.get(metric.limit)
        if limit and limit['unit'] != metric.unit:  # a bound in another unit would judge wrongly: be loud
            raise ReframeError(f'{metric.name} is in {metric.unit}, its limit {metric.limit} in '
                               f'{limit["unit"]}: state both in one unit')
        return MetricRecord(metric.unit, metric.better, limit=limit)

    def _parity_reference(self):
        """Set the accepted values of this partition, where there are any: ReFrame's $ref form, which 4.9 lacks.

        The file is named only when it exists: ReFrame skips a check whose file is missing and
        says PASSED. Cases without a reference are `unreferenced` in the verdict: so is one that the command
        line made another, because references are accepted for a check as it is."""
        part = self.current_partition
        file = systems.references(part.fullname.split(':')[0]) / f'{part.name}.yaml'
        if not file.is_file() or self.parity_changed():
            return
        if adopt.refers():
            self.reference = {'$ref': str(file)}
        else:
            self.reference = {part.fullname: adopt.accepted_values(self, self.size)}

    def parity_hardware(self):
        """Raise Wrong for hardware that is bad, whatever the program printed."""

    def parity_beside(self):
        """Figures beside those that the program printed. Raises Incomplete or Wrong."""
        return {}

    def extra(self, key):
        """A fact of the partition (cores, memory_bytes, filesystems, ...), or None if unknown."""
        return self.current_partition.extras.get(key)

    def filesystem(self, name):
        """The path of a named file system of the partition, made if need be; fails where there is none."""
        stated = self.extra('filesystems') or {}
        if name not in stated:
            raise ReframeError(f'no file system {name!r} is named for {self.current_partition.fullname} '
                               f'(named: {", ".join(sorted(stated)) or "none"}): '
                               'name it in extras: filesystems of system.yaml')
        path = stated[name]
        if self.standalone:
            return self._filesystem_elsewhere(name, path)
        if not self.is_dry_run():
            with contextlib.suppress(OSError):  # the program that uses it says what is wrong with it
                os.makedirs(path, exist_ok=True)
        return path

    def _filesystem_elsewhere(self, name, path):
        """Return the path for somebody without parity, whose script makes it: parity's own folder is one beside
        the script."""
        ours = os.path.realpath(paths.results()) + os.sep
        if os.path.realpath(path).startswith(ours):
            path = f'./{name}'
        make = f'mkdir -p -- {shlex.quote(path)}'
        others = [command for command in self.prerun_cmds if command != make]
        self.prerun_cmds = [make, *others]
        return path

    def program(self, name):
        """A program of the environment, quoted for the job script: below Spack's view, else as PATH has it. Skip
        the case where its folder, which this machine sees, has other programs of the code only."""
        software = self.current_environ.extras.get('software', {})
        about = software.get('programs', {}).get(name, {})
        name = about.get('name', name)
        view = software.get('view', '')
        if not view:
            return shlex.quote(os.path.basename(name))
        if os.path.isdir(view) and not os.path.lexists(os.path.join(view, name)):
            self.skip_case(f'{self.current_environ.name} has no {name}', Kind.NO_PROGRAM)
        folder = './bin' if self.standalone else view
        return shlex.quote(os.path.join(folder, name))

    def python(self):
        """The Python that has mpi4py, quoted for the job script; PYTHON names it to somebody without parity."""
        if not self.standalone:
            return shlex.quote(sys.executable)
        python = '"${PYTHON:-python3}"'
        advice = 'PYTHON: name a Python that has mpi4py, for instance PYTHON=/opt/python/bin/python3'
        demand = f"{python} -c 'import mpi4py' || {{ echo '{advice}' >&2; exit 2; }}"
        self.prerun_cmds = [demand, *self.prerun_cmds]
        return python

    def launch(self, asked):
        """Ask for these ranks, or skip the case where the partition has too few nodes."""
        available = self.extra('nodes')
        if available and asked.nodes > available:
            place = self.current_partition.fullname
            self.skip_case(f'nodes: needs {asked.nodes}, {place} has {available}', Kind.NODES)
        self.num_tasks, self.num_tasks_per_node = asked.ranks, asked.ranks_per_node
        node_file = asked.nodes > 1 and placement.needs_node_file(self.current_partition)
        self.env_vars.update(placement.variables(asked, node_file))
        if node_file:
            self.job.launcher.options += ['--hostfile "$PBS_NODEFILE"']

    def without_launcher(self):
        """Run the program itself, not through mpirun or srun: it is no MPI program."""
        self.job.launcher = getlauncher('local')()

    def skip_case(self, reason, kind=Kind.NONE):
        """Leave the case out, with the reason that the verdict will show."""
        reason = reasons.cut(reason)
        self.parity.refuse('skipped', reason, kind)
        self.skip(reason)

    def derive(self, what, sized):
        """Keep a size that was derived, with its reason, beside the figures."""
        self.parity.sizing[what] = dataclasses.asdict(sized)

    def note(self, facts):
        """Keep what the output says beside its figures: sizes, file systems, versions."""
        self.parity.facts = facts

    def variant(self, **found):
        """Keep which of the check's ``variants`` this run is; raises Wrong for one that it does not declare."""
        for name, value in found.items():
            if value not in self.variants[name]:
                raise Wrong(f'{name} is {value}: valid are {", ".join(self.variants[name])}')
            setattr(self, name, value)
        self.parity.variant = found

    def stage(self, name, text):
        """Write an input file into the case's stage directory."""
        self.parity.inputs = {**(self.parity.inputs or {}), name: identity.digest(text.encode())}
        Path(self.stagedir, name).write_text(text)

    def stage_program(self, name):
        """Put a program into the case's stage directory, ready to start: from programs/ beside the check, else
        from jobs/programs."""
        file = Path(self.prefix, 'programs', name)
        if not file.exists():
            file = paths.programs() / name
        os.chmod(shutil.copy(file, self.stagedir), 0o755)

    @run_before('run')
    def parity_stage_programs(self):
        for name in self.programs:
            self.stage_program(name)

    def leave_out(self, metrics, reason):
        """Metrics that this case cannot have, e.g. a latency between ranks where there is one rank."""
        self.parity.left_out.update(dict.fromkeys(metrics, reason))

    def label(self, metrics, word, reason):
        """Mark figures as not being what they seem, e.g. 'cached': they are never judged as such."""
        for name in metrics:
            self.parity.labels[name] = Label(word, reason)

    def label_cached(self, metrics, array_bytes, cache_bytes):
        """Label bandwidths whose arrays the last-level caches may hold; None: their size is not known."""
        why = 'perhaps: the size of the last-level caches is not known'
        if cache_bytes:
            why = sizing.cached(array_bytes, cache_bytes)
        if why:
            self.label(metrics, 'cached', why)

    @run_before('run', always_last=True)
    def parity_queue(self):
        if self._parity_here():
            self.parity.before = machine.reading()
        scheduled.begin(self)
        watched.begin(self)
        scheduled.demand_modules(self)
        scheduled.demand_target(self)
        why = submission.of_case(self)
        if why:
            raise ReframeError(why)

    @run_after('run', always_last=True)
    def parity_after(self):
        if self._parity_here():
            self.parity.after = machine.reading()

    def _parity_here(self):
        """True if the case runs on this very machine: only then its load is the case's load."""
        return not self.is_dry_run() and self.runs_here()

    def runs_here(self):
        """Return whether the job runs on this very machine."""
        return self.current_partition.scheduler.registered_name == 'local'

    def parse(self, text):
        """The figures in ``text``, the program's standard output, by metric name. Raises Incomplete,
        Wrong or Unread."""
        raise NotImplementedError(f'{type(self).__name__} declares no parse(): write one that returns its figures')

    @sanity_function
    def parity_verify(self):
        """Parse what the program printed; nothing but complete, right, finite figures passes."""
        if self.is_dry_run():
            return True
        self.parity.node = scheduled.node(self.stagedir)
        self.parity.nodes = self.job.nodelist or []      # for a session that is killed
        self._parity_watched()
        kind, why = scheduled.ended(self.job, self._parity_text(self.stderr))
        if why:
            self._parity_refuse('failed', f'{why}{self._parity_complaint()}', kind)
        values = self._parity_values()
        if self.job.exitcode:
            self._parity_refuse('failed', f'{self._parity_exit()}{reasons.COMPLETE}', Kind.ENDED)
        expected = self._parity_expected()
        for metric in expected:
            value = values.get(metric.name)
            why = 'absent from the output' if value is None else metric.refuses(value)
            if why:
                self._parity_refuse('wrong', f'metric {metric.name} is {why}')
        too_long = watched.longer(self.parity.watched, self._parity_times(values))
        if too_long:
            self._parity_refuse('wrong', too_long)
        if TEST_BED in self.current_partition.features:
            names = [metric.name for metric in self.metrics]
            self.label(names, 'test bed', 'the partition only tries checks')
        self._parity_ceilings(values)
        self.perf_variables = {}
        for metric in expected:
            value = sn.defer(values[metric.name])
            self.perf_variables[metric.name] = sn.make_performance_function(value, metric.unit)
        return True

    def _parity_values(self):
        """Return the figures of a complete and right output; refuse any other."""
        if not Path(str(sn.evaluate(self.stdout))).exists():
            self._parity_refuse('failed', f'{self._parity_exit()}output incomplete: there is none; '
                                          + scheduled.no_output(self.job, self.stagedir))
        try:
            self.parity_hardware()
            return self.parse(self._parity_text(self.stdout)) | self.parity_beside()
        except Wrong as err:
            self._parity_refuse('wrong', str(err))
        except Alone as err:
            self._parity_refuse('failed', str(err), Kind.LAUNCH)
        except Unread as err:
            self._parity_refuse('failed', f'{self._parity_exit()}{err}', Kind.UNREAD)
        except Incomplete as err:
            self._parity_alone()
            self._parity_refuse('failed', f'{self._parity_exit()}output incomplete: {err}')
        except placement.Misplaced as err:
            self._parity_refuse('failed', str(err), Kind.PLACEMENT)

    def _parity_alone(self):
        """Refuse a run whose ranks started alone, where they say so on standard error."""
        program = getattr(sys.modules[type(self).__module__], 'PROGRAM', None)
        if not isinstance(program, Program):
            return
        try:
            program.refuse_alone(self._parity_text(self.stderr))
        except Alone as err:
            self._parity_refuse('failed', str(err), Kind.LAUNCH)

    def _parity_watched(self):
        """Note who else had the CPUs of the job, whether its clock was right, and what it left running."""
        seen = watched.report(self.stagedir)
        if self.extra('nodes_share_cpus') and scheduled.nodes(self) > 1:
            seen |= {'others': None, 'unknown': 'the nodes of the job share CPUs'}
        self.parity.watched = seen
        self.parity.disturbed = watched.false_clock(seen) or watched.disturbed(seen, self.extra('others_cpus'))

    def _parity_times(self, values):
        """Return the times that the output tells, in seconds: no rank's can be longer than the job's."""
        times = {}
        for metric in self._parity_expected():
            if metric.unit in SECONDS:
                times[metric.name] = values[metric.name] * SECONDS[metric.unit]
        noted = self.parity.facts.get('seconds')
        if isinstance(noted, (int, float)):
            times['a run of the program'] = noted
        return times

    @staticmethod
    def _parity_text(file):
        try:
            return Path(str(sn.evaluate(file))).read_bytes().decode('utf-8', errors='replace')
        except FileNotFoundError:       # the node was gone before it wrote anything
            return ''

    def _parity_expected(self):
        return [metric for metric in self.metrics if metric.name not in self.parity.left_out]

    def _parity_exit(self):
        """Return the exit code, if it is not 0, and the complaint on standard error."""
        return f'exit code {self.job.exitcode}{self._parity_complaint()}; ' if self.job.exitcode else ''

    def _parity_complaint(self):
        complaint = reasons.complaint(self._parity_text(self.stderr))
        return f'; {complaint}' if complaint else ''

    def _parity_refuse(self, status, reason, kind=Kind.NONE):
        reason = reasons.cut(reason)
        self.parity.refuse(status, reason, kind)
        raise SanityError(f'{status}: {reason}')

    def _parity_ceilings(self, values):
        """Stand a figure beside a measured ceiling: efficiency, never `impossible`. A ceiling that another check
        measures is looked up when the session is judged."""
        for metric in self._parity_expected():
            record = self.parity.metrics[metric.name]
            if not metric.ceiling or record.limit:
                continue
            times = self.num_tasks if metric.ceiling_times_ranks else 1
            if '.' in metric.ceiling:
                record.ceiling = {'of': metric.ceiling, 'times': times}
            else:
                limit = measured(metric.ceiling, values[metric.ceiling], times, metric.unit, 'run')
                record.limit = limit.model_dump()


def _claim(features):
    """Return features as ReFrame wants them: '+mpi +cuda'."""
    return ' '.join(f'+{feature}' for feature in sorted(features)) or '*'


#: Units of time. CPU time that is summed over ranks needs another one, such as `CPU s`.
SECONDS = {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9}
#: No cluster reaches 1e18 in any unit used here (Gflop/s, MB/s, us, operations a second). A larger number comes
#: from a broken clock or a garbled output.
MOST = 1e18


@dataclass(frozen=True)
class Metric:
    """One number of a case.

    ``limit`` names the physical bound of the partition that the figure stands beside
    (a key of the partition's ``limits``, for instance ``peak_flops``).
    ``ceiling`` names another metric of the same run, or ('Check.metric') of another check of the session. It gives
    an efficiency and never makes a figure impossible. ``ceiling_times_ranks`` multiplies it by the ranks.
    ``zero`` allows 0, as for losses and errors. ``most`` is the largest possible figure, such as 100 %. A figure
    outside this range is `wrong`."""

    name: str
    unit: str
    better: Literal['higher', 'lower']
    limit: str | None = None
    ceiling: str | None = None
    ceiling_times_ranks: bool = False
    zero: bool = False
    most: float = MOST

    def refuses(self, value: float) -> str:
        """Return why ``value`` cannot be a figure of this metric; '' if it can."""
        if 0 < value <= self.most or self.zero and value == 0:      # false of what is not finite
            return ''
        least = 'at least 0' if self.zero else 'above 0'
        most = f'{self.most:g} {self.unit}'.rstrip()
        return f'{value:.6g}: must be {least} and at most {most}'
