"""The software of an earlier night: whether it is there, its name, and its size on the disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parity.base import files
from parity.measure.software import earlier


def build(root: Path, name: str, *packages: str) -> Path:
    """Return a build of these packages, of 100 bytes each, whose view has a program of the first."""
    folder = root / 'builds' / name
    (folder / 'view' / 'bin').mkdir(parents=True)
    numbers = {package: package * 32 for package in packages}
    for package, number in numbers.items():
        program = root / 'opt' / f'{package}-1.0-{number}' / 'bin' / package
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_bytes(b'x' * 100)
    first = packages[0]
    (folder / 'view' / 'bin' / first).symlink_to(root / 'opt' / f'{first}-1.0-{numbers[first]}' / 'bin' / first)
    (folder / 'spack.lock').write_text(json.dumps({'concrete_specs': {number: {} for number in numbers.values()}}))
    return folder


def test_the_size_of_a_build_is_that_of_the_packages_which_no_other_has(tmp_path):
    one, two = build(tmp_path, 'one', 'a', 'b', 'c'), build(tmp_path, 'two', 'b', 'd')
    folder = (tmp_path / 'opt' / f'a-1.0-{"a" * 32}' / 'bin').lstat().st_size
    assert earlier.bytes_of([one], []) == 3 * (100 + folder) and earlier.bytes_of([one], [two]) == 2 * (100 + folder)
    (one / 'spack.lock').unlink()
    assert earlier.bytes_of([one], []) == 0


def test_programs_of_a_prefix_that_are_others_now_cannot_be_measured_again(tmp_path):
    program = tmp_path / 'xhpl'
    program.write_text('one')
    then = {'prefix': str(tmp_path), 'programs': {'xhpl': {'path': str(program), 'sha256': files.sha256(program)}, 'other': {'path': '/no'}}}
    assert earlier.gone(then) == ''
    program.write_text('two')
    assert earlier.gone(then) == f'{program} is another program now: install each version below a prefix of its own'
    program.unlink()
    assert earlier.gone(then) == f'{program} is not there any more: install each version below a prefix of its own'


def test_a_view_that_is_gone_is_made_again_from_its_lock(tmp_path):
    folder = build(tmp_path, 'one', 'a')
    software = {'packages': {'a': {}}, 'view': str(folder / 'view' / 'bin')}
    assert earlier.gone(software) == ''
    (folder / 'view' / 'bin' / 'a').unlink()
    assert earlier.gone(software).endswith(f'spack -e {folder} install makes it again')
    (folder / 'spack.lock').unlink()
    assert earlier.gone(software).endswith('no lock of it is kept')


@pytest.mark.parametrize('software, label, gone', [
    ({'modules': ['gcc/13', 'openmpi']}, 'modules gcc/13 openmpi', False), ({'prefix': '/opt/x'}, '/opt/x', False),
    ({'packages': {}, 'view': '/s/builds/41bc9d/view/bin'}, 'view 41bc', True), ({'programs': {}}, 'the programs on PATH', True)])
def test_software_has_a_short_name(software, label, gone):
    assert earlier.label(software) == label and bool(earlier.gone(software)) is gone
