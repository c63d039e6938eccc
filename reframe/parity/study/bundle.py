"""The bundle of a study: a zip with all that a stranger needs to check what was measured."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from parity.base import csvfile, files, paths
from parity.judge.compare.model import Value
from parity.judge.store import database
from parity.study import page
from parity.study.compared import Compared
from parity.study.published import folder

_COLUMNS = ('experiment', 'metric', 'unit', 'better', 'side', 'repeat', 'value', 'session', 'nodes', 'when',
            'label')
#: Files of a study's folder that a bundle has, where they are there.
_OF_STUDY = ('study.yaml', 'README.md', 'published.csv')
#: The oldest day that a zip can state: so the same content makes the same bytes.
_DAY = (1980, 1, 1, 0, 0, 0)


def write(of: Compared) -> Path:
    """Write NAME.zip beside the study's page, and return it."""
    contents = {path.name: path.read_bytes() for path in page.write(of)}
    for name in _OF_STUDY:
        file = folder(of.name) / name
        if file.is_file():
            contents[name] = files.read(file)
    contents['runs.csv'] = _runs(of).encode()
    contents['sessions.json'] = _sessions(of).encode()
    sums = [f'{hashlib.sha256(content).hexdigest()}  {name}\n' for name, content in sorted(contents.items())]
    contents['SHA256SUMS'] = ''.join(sums).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as written:
        for name, content in sorted(contents.items()):
            written.writestr(zipfile.ZipInfo(f'{of.name}/{name}', _DAY), content, zipfile.ZIP_DEFLATED)
    file = paths.results() / 'report' / 'studies' / f'{of.name}.zip'
    files.write(file, archive.getvalue())
    return file


def _runs(of: Compared) -> str:
    """Return the value of each run that was measured, with its session, nodes and time, as CSV."""
    axes = list(of.study.axes)
    return csvfile.written([*_COLUMNS, *axes], _rows(of, axes))


def _rows(of: Compared, axes: list[str]) -> Iterator[list[object]]:
    for cell in of.here:
        side = cell.point.get(of.study.contrast, of.study.baseline)
        named = [cell.experiment, cell.metric, cell.unit, cell.better, side]
        point = [cell.point.get(axis, '') for axis in axes]
        for run in cell.values:
            turn = cell.turns.get(run.session, '')
            nodes = ' '.join(run.nodes)
            yield [*named, turn, run.value, run.session, nodes, _time(run), cell.label, *point]


def _time(run: Value) -> str:
    """Return when a run ended; '' where that is not known."""
    if run.when is None:
        return ''
    return datetime.datetime.fromtimestamp(run.when, datetime.timezone.utc).isoformat()


def _sessions(of: Compared) -> str:
    """Return the environment of each session as JSON: what its job saw of machine and software."""
    found = {}
    with paths.of_study(of.name):
        for uuid in of.ran.uuids if of.ran else ():
            found[uuid] = database.read(uuid).facts
    text = json.dumps(found, indent=1, sort_keys=True, default=str)
    return f'{text}\n'
