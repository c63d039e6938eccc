"""`parity cause INCIDENT` and `parity cause CASE --environ A --environ B`."""

from __future__ import annotations

import re
from dataclasses import replace

import typer

from parity.base.errors import UsageError
from parity.base.figures import several

WANTED = typer.Argument(metavar='INCIDENT|CELL', help='The number of an incident, or a cell as for parity show.')
RUN = typer.Option(False, '--run', help='Measure it, in turns.')
ENVIRON = typer.Option([], '--environ', metavar='NAME',
                       help='Compare a case with two environments: give it twice.')
SUBMIT = typer.Option(False, '--submit', help='With --run: submit a job that measures it.')
RESERVATION = typer.Option('', '--reservation', metavar='NAME',
                           help="With --run: a reservation of Slurm's that has the nodes, also between turns.")
PACKAGES = typer.Option(False, '--packages', help='Find the package to blame, by builds of halves.')


def run(wanted: str = WANTED, measure: bool = RUN, environ: list[str] = ENVIRON, packages: bool = PACKAGES,
        submit: bool = SUBMIT, reservation: str = RESERVATION):
    """Find the cause of a slowdown by an experiment: the software, the node, both or neither. Without --run, print
    what would be measured.

    \b
    parity cause 17                    where, how long, and what each outcome means
    parity cause 17 --run
    parity cause 17 --packages         which package, where it is the software
    parity cause Hpcc --environ gcc13 --environ gcc14 --run

    Exit code: 0 measured, 2 usage, 3 nothing to measure, 4 infrastructure."""
    from parity.base import console
    from parity.cause import answer
    from parity.cause import experiment as experiments
    if (submit or reservation) and not measure:
        raise UsageError(f'--{"submit" if submit else "reservation"} is for --run: add --run, or leave it out')
    if packages:
        _package(wanted)
        return
    experiment, title, number = _between(wanted, environ) if environ else _of_incident(wanted)
    too_dear = answer.too_dear(experiment)
    if too_dear:
        raise UsageError(too_dear)
    console.lines(answer.planned(experiment, title))
    options = []
    for name in environ:
        options += ['--environ', name]
    if not measure:
        console.say(f'\nparity cause {" ".join([wanted, *options])} --run')
        return
    if submit:
        held = ['--reservation', reservation] if reservation else []
        _send(experiment, [wanted, *options, *held])
        return
    if reservation:
        experiment = replace(experiment, arguments=[*experiment.arguments, '-J', f'reservation={reservation}'])

    def store_answer(measured) -> None:
        if environ:
            console.lines(['', *answer.compared(experiment, measured)])
            return
        from parity.judge.store import incidents as table
        cause = answer.answer(experiment, measured)
        table.change({number: lambda _: {'cause': cause}})
        console.lines([(f'\n{cause.text}', 'bold'), *cause.settings, f'next: parity show {number}'])
    experiments.run(experiment, store_answer)


def _send(experiment, words: list[str]) -> None:
    """Send the command as a job, and print its id."""
    from parity.measure.jobs import sent, write
    name = f'cause-{experiment.key}'
    system = experiment.system.name
    nodes = {*experiment.node, *experiment.peer}
    script = write.of_command(name, system, ['cause', *words, '--run'], nodes)
    job = sent.submit('campaign', system, *script)
    print(job.id)


def _package(wanted: str) -> None:
    """Find the package, and note it with the incident."""
    from parity.base import console
    from parity.cause import design
    from parity.cause import packages as bisection
    from parity.judge.store import incidents as table
    incident = table.read(wanted if wanted.isdecimal() else _incident_of(wanted))
    number, cause = incident.number, incident.cause
    if cause is None or cause.word not in ('software', 'both'):
        known = f' ({cause.text})' if cause else ''
        raise UsageError(f'incident {number}: the software is not known to be the cause{known}; '
                         f'first: parity cause {number} --run')
    experiment = design.of_incident(incident)
    needs = bisection.needs_of(incident, experiment.cells[0].case)
    name = bisection.guilty(experiment, needs, cause.slower['software'][0])
    table.change({number: lambda one: {'cause': one.cause.model_copy(update={'package': name})}})
    console.lines([(f'\npackage: {name}', 'bold'), f'next: parity show {number}'])


def _of_incident(wanted: str):
    """Return the experiment on an incident, or on the incident of a cell, its title and the number."""
    from parity.cause import design
    from parity.judge.store import incidents as table
    number = wanted if wanted.isdecimal() else _incident_of(wanted)
    incident = table.read(number)
    return design.of_incident(incident), f'incident {number}   {incident.title}', int(number)


def _incident_of(wanted: str) -> str:
    from parity.judge.report import show
    _, name, cell = show.find(wanted)
    if not cell.incident:
        raise UsageError(f'{name} is {cell.verdict} and belongs to no incident: there is no slowdown to explain; '
                         'two environments can be compared: --environ A --environ B')
    return str(cell.incident)


def _offering(place: str, case: str) -> set[str]:
    """Return the environments of a partition that can run a case now."""
    from parity.measure.rfm import planning
    wanted = case.replace(' ', '')
    environs = set()
    for planned in planning.of_system(place, '-n', f'^{re.escape(wanted)}$').cases:
        if planned.environ and planned.case.replace(' ', '') == wanted:
            environs.add(planned.environ)
    return environs


def _between(wanted: str, environs: list[str]):
    """Return the experiment on two environments, of all metrics that ``wanted`` fits, its title, and no number."""
    from parity.cause import design
    from parity.judge.report import show
    if wanted.isdecimal():
        raise UsageError(f'--environ compares environments of a case, not of incident {wanted}: name the case')
    known = show.cells_like(wanted)
    cells = [known[name] for name in show.fitting(wanted, known)]
    cases = sorted({f'{cell.case.replace(" ", "")}@{cell.system}:{cell.partition}' for cell in cells})
    if len(cases) != 1:
        advice = 'parity verdict --all lists those of the newest session'
        if cases:
            advice = f'name one: {several(cases)}'
        raise UsageError(f'{wanted!r} fits {len(cases)} cases that were measured; {advice}')
    case, system, partition = cells[0].case, cells[0].system, cells[0].partition
    offered = set()
    for cell in known.values():
        if (cell.case, cell.system, cell.partition) == (case, system, partition) and cell.environ:
            offered.add(cell.environ)
    if not offered.issuperset(environs):      # one may be there and never have run
        offered |= _offering(f'{system}:{partition}', case)
    return design.between(cells, environs, offered), f'{cases[0]}: {" and ".join(environs)}', 0
