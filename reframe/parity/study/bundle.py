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


def write(result: Compared) -> Path:
    """Write NAME.zip beside the study's page, and return it."""
    contents = {path.name: path.read_bytes() for path in page.write(result)}
    for name in _OF_STUDY:
        file = folder(result.name) / name
        if file.is_file():
            contents[name] = files.read(file)
    contents['runs.csv'] = _runs(result).encode()
    contents['sessions.json'] = _sessions(result).encode()
    sums = [f'{hashlib.sha256(content).hexdigest()}  {name}\n' for name, content in sorted(contents.items())]
    contents['SHA256SUMS'] = ''.join(sums).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as written:
        for name, content in sorted(contents.items()):
            written.writestr(zipfile.ZipInfo(f'{result.name}/{name}', _DAY), content, zipfile.ZIP_DEFLATED)
    file = paths.results() / 'report' / 'studies' / f'{result.name}.zip'
    files.write(file, archive.getvalue())
    return file


def _runs(result: Compared) -> str:
    """Return the value of each run that was measured, with its session, nodes and time, as CSV. The contrasted
    axis is the column `side`."""
    axes = [axis for axis in result.study.axes if axis != result.study.contrast]
    return csvfile.written([*_COLUMNS, *axes], _rows(result, axes))


def _rows(result: Compared, axes: list[str]) -> Iterator[list[object]]:
    for cell in result.here:
        side = cell.point.get(result.study.contrast, result.study.baseline)
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


def _sessions(result: Compared) -> str:
    """Return the environment of each session as JSON: what its job saw of machine and software."""
    found = {}
    with paths.of_study(result.name):
        for uuid in result.ran.uuids if result.ran else ():
            found[uuid] = database.read(uuid).facts
    text = json.dumps(found, indent=1, sort_keys=True, default=str)
    return f'{text}\n'
