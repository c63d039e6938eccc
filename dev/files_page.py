"""The reference page of the YAML files that people edit: `python -m dev.files_page >docs/files.md`.

It derives from the models that check the files and from the comments beside their fields, so it cannot go stale.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import textwrap
import tokenize
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from parity.base import codes, yamlfile
from parity.base.strict import Strict
from parity.judge.compare.pairs import Pairs
from parity.judge.refs.levels import Levels
from parity.judge.verdict.acks import Acks
from parity.measure.jobs.request import JobsFile
from parity.measure.software.environment import GpuFile
from parity.site.contract import Contract
from parity.site.directions import Adopt
from parity.site.systems import LimitName, System
from parity.study.published import Study

#: Every file, its model and its purpose.
FILES = (
    ('systems/NAME/system.yaml', System,
     'This file describes a system. `parity probe NAME` writes it. Keys without an explanation are ReFrame\'s '
     'own: see its manual, "Configuration Reference".'),
    ('systems/NAME/jobs.yaml', JobsFile,
     'The resources that parity\'s own jobs ask for on a system, over jobs/jobs.yaml, which has the same keys.'),
    ('systems/NAME/pairs.yaml', Pairs,
     'Partitions declared comparable, and the expected ratios.'),
    ('systems/NAME/contract.yaml', Contract,
     'The promises of a delivery ([Accepting a new machine](accepting-a-new-machine.md)).'),
    ('systems/NAME/acks.yaml', Acks, 'Known faults, acknowledged until a day. `parity ack` writes it.'),
    ('systems/NAME/levels.yaml', Levels, 'Levels that a person began. `parity level` writes it.'),
    ('systems/NAME/spack/gpu.yaml', GpuFile,
     'The GPU codes. The other files in that folder are Spack\'s: packages.yaml, concretizer.yaml, spack.lock.'),
    ('checks/SUBSYSTEM/CODE/code.yaml', codes.Code,
     'A benchmark code: where its programs come from, and what its figures mean.'),
    ('checks/adopt.yaml', Adopt,
     'The better side of metrics of tests that were not written for parity.'),
    ('studies/NAME/study.yaml', Study, 'A published experiment, and its tables.'),
)
_HEAD = """\
# The files that people edit

This page is generated (`python -m dev.files_page >docs/files.md`). parity checks every file when it reads it. An
error names the file, the line, the key and the valid values, and ends with exit code 2. A key that is not listed
here is an error, and so is a repeated key. A file has at most 16 million characters and 63 levels, and its aliases
repeat at most a million characters. [Accepted values](references.md) have their own page.

A name has letters, digits, `_` and `-`. These are the codes:

    {codes}

## Where they lie

| what | the first of these that there is |
|---|---|
| the site: systems/ | `--site DIR`, `PARITY_SITE`, the checkout, `~/.config/parity` |
| results | `PARITY_RESULTS`, `results/` of the site; for `~/.config/parity` it is `~/.local/share/parity` |
| the checkout: checks/, jobs/, studies/, adopt.yaml in checks/ | `PARITY_ROOT`, the folder above the library |

A checkout is needed to measure. To judge what is stored, `pip install` of the wheel is enough. adopt.yaml lies in
the site then. An editable install in another environment is the same, unless you are in the checkout.
`XDG_CONFIG_HOME` and `XDG_DATA_HOME` stand for `~/.config` and `~/.local/share`.
"""
#: Python's types in plain words.
_WORDS = {'str': 'text', 'bool': 'true or false', 'int': 'whole number', 'float': 'number', 'Any': 'anything',
          'PositiveInt': 'whole number above 0', 'Positive': 'number above 0', 'Bound': 'number above 0',
          'datetime.date': 'day, such as 2027-01-31', 'Time': 'time, such as 30m, 8h, 1d12h',
          'NodeName': 'name of a node', 'Percentage': 'percentage, such as 4 %',
          'CellName': 'name of a cell',
          'Name': 'name', 'Variable': 'name', 'CodeName': 'code', 'Text': 'text', 'dict': 'mapping',
          'Module': 'module',
          'Option': "option of the scheduler's", 'EnvVars': 'list of [NAME, value]', 'Word': 'word',
          'Address': 'mail address', 'File': 'name of a .csv file',
          'LimitName': ' or '.join(f'`{name}`' for name in get_args(LimitName))}


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD.format(codes=', '.join(codes.features()))]
    for name, model, what in FILES:
        parts.append(f'\n## {name}\n\n{what}\n')
        parts += [_section(part, part is model) for part in _models(model, [])]
    return ''.join(parts)


def _models(model: type[BaseModel], seen: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """Return the model and its fields' models, each once, in the order of the file."""
    if model not in seen:
        seen.append(model)
        for info in model.model_fields.values():
            for inner in _inside(info.annotation):
                _models(inner, seen)
    return seen


def _inside(annotation) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, '__args__', ()):
        yield from _inside(argument)


def _section(model: type[BaseModel], top: bool) -> str:
    # Python 3.13 dedents docstrings, earlier ones do not
    docstring = inspect.cleandoc(model.__doc__ or '')
    said = docstring.partition('\n\n')[0].replace('\n', ' ')
    head = '' if top else f'\n### {model.__name__}\n' + (f'\n{said}\n' if said else '')
    rows = ''.join(f'| {" | ".join(row)} |\n' for row in _fields(model))
    return f'{head}\n| key | value | if not stated | |\n|---|---|---|---|\n{rows}'


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and comment of each field; a base's fields come first, as in pydantic."""
    stated: dict[str, tuple[str, str, str]] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            stated |= _source(base)
    for name, info in model.model_fields.items():
        if info.exclude:        # parity sets it
            continue
        yield name, *(text.replace('|', '\\|') for text in stated[name])


def _source(model: type) -> dict[str, tuple[str, str, str]]:
    text = textwrap.dedent(inspect.getsource(model))
    beside, above = _comments(text)
    known = vars(sys.modules[model.__module__])
    found = {}
    for node in ast.parse(text).body[0].body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            comment = beside.get(node.end_lineno) or above.get(node.lineno - 1, '')
            found[node.target.id] = _kind(node.annotation, known), _default(node.value), comment
    return found


def _comments(text: str) -> tuple[dict[int, str], dict[int, str]]:
    """Return, by line, the comment beside it, and the joined `#:` lines that end there."""
    beside: dict[int, str] = {}
    above: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.lstrip('#: ')
            if token.line.strip().startswith('#:'):
                above[line] = f'{above.pop(line - 1, "")} {words}'.strip()
            elif not token.line.strip().startswith('#'):
                beside[line] = words
    return beside, above


def _kind(node: ast.expr, known: dict[str, Any]) -> str:
    """Return a type in words, without the checks of Annotated, which the error explains."""
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == 'Annotated':
            return _kind(inner[0], known)
        if name == 'Literal':
            words = known[inner[0].id] if isinstance(inner[0], ast.Name) else [value.value for value in inner]
            return (', ' if len(words) > 8 else ' or ').join(f'`{word}`' for word in words)
        if name in ('list', 'tuple'):
            return f'list of {_kind(inner[0], known)}'
        if name == 'dict':
            return f'mapping of {_kind(inner[0], known)} to {_kind(inner[1], known)}'
    if isinstance(node, ast.BinOp):
        return ' or '.join(_kind(side, known) for side in (node.left, node.right) if not _none(side))
    name = ast.unparse(node)
    return _WORDS.get(name, name)


def _none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _default(node: ast.expr | None) -> str:
    """Return the default value; '' for nothing, or for a model with defaults of its own."""
    if isinstance(node, ast.Call):
        node = next((k.value for k in node.keywords if k.arg == 'default'),
                    None if ast.unparse(node.func) == 'Field' else ast.Constant(None))
    if node is None:
        return '**required**'
    if isinstance(node, ast.Call):
        return ''
    value = ast.literal_eval(node)
    if value in (None, '', [], (), {}):
        return ''
    return f'`{", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value).lower()}`'


_CODES = '''\
# The codes

This page is generated from checks/<subsystem>/<code>/ (`python -m dev.files_page codes >docs/codes.md`).
`parity parse CODE FILE` reads what a code printed. To add a code, see [a new check](new-check.md).

| code | what it measures | checks | it comes from |
|---|---|---|---|
'''


_FORMS = '''
## Versions and modes

Each row is an output in the code's folder, and a test reads it. `read` gives figures. A version that is not listed
is read where its own figures confirm each other, with the note `version 7.6: not tried`. All else is refused by
name: `unread` in `parity parse`, and `failed` in a night. Nobody ran the outputs that are `made`.

| code | output | what parity says | from |
|---|---|---|---|
'''

_REACHED = '''
## What they reach

Each row was measured in turns on one machine: a figure over its limit, with the 95 % interval. Hold your own
against it: `python -m dev.bench.codes --hand FOLDER` measures the same ratios. Processors of other kinds differ.

| code | the figure | over this limit | ratio | processor | built with | if yours is less |
|---|---|---|---|---|---|---|
'''


class Reached(Strict):
    """A figure of a code over its limit, as measured."""

    figure: str
    limit: str
    ratio: str
    processor: str
    build: str
    less: str                   # advice where a machine reaches less


class ReachedFile(Strict):
    """reached.yaml in the folder of a code."""

    rows: list[Reached]


def codes_page() -> str:
    """Return the table of the codes, what they reach, and the outputs that are read and refused."""
    page = _CODES
    for code in codes.every():
        page += _line(_row(code))
    page += _REACHED
    for code in codes.every():
        for row in _reached(code):
            page += _line((code.room, *row.model_dump().values()))
    page += _FORMS
    for code in codes.every():
        for row in _forms(code):
            page += _line(row)
    return page


def _line(cells: Sequence[str]) -> str:
    escaped = [cell.replace('|', '\\|') for cell in cells]
    return f'| {" | ".join(escaped)} |\n'


def _reached(code: codes.Code) -> list[Reached]:
    file = code.file.parent / 'reached.yaml'
    return yamlfile.read(file, ReachedFile).rows if file.exists() else []


def _forms(code: codes.Code) -> Iterator[tuple[str, ...]]:
    """Yield a row of each output whose form is named: and what expected.yaml says."""
    expected, _ = yamlfile.load(code.file.parent / 'expected.yaml')
    for name, said in expected['outputs'].items():
        if 'form' not in said:
            continue
        words = [f'{word}: {said[word]}' for word in ('unread', 'wrong', 'incomplete') if word in said]
        made = 'made' if name.startswith('made/') else 'a run'
        yield code.room, said['form'], words[0] if words else 'read', made


def _row(code: codes.Code) -> tuple[str, str, str, str]:
    tree = ast.parse(code.file.read_text())
    said = ast.get_docstring(tree).partition('\n\n')[0].replace('\n', ' ')
    checks = [node.name for node in tree.body if isinstance(node, ast.ClassDef)
              and 'rfm.simple_test' in map(ast.unparse, node.decorator_list)]
    comes = [f'Spack: `{code.spack}`'] if code.spack else []
    comes += [f'the distribution: {code.package}'] if code.package else []
    return f'{code.file.parent.parent.name}/{code.room}', said, ' '.join(checks), '; '.join(comes) or 'parity'


if __name__ == '__main__':
    sys.stdout.write(codes_page() if sys.argv[1:] == ['codes'] else page())
