"""parity doctor says beforehand of which programs the output will be read."""

from __future__ import annotations

import pytest

from parity.base import codes
from parity.measure.software.programs import Environ
from parity.nightly import versions


def program(file, prints: str) -> str:
    file.write_text(f'#!/bin/sh\n[ "$1" = -h ] && exit 0\n{prints}\n')
    file.chmod(0o755)
    return str(file)


def offered(tmp_path, feature: str, version: str | None, prints: str = 'exit 1') -> versions.ProgramVersion:
    code = next(code for code in codes.every() if code.feature == feature)
    path = program(tmp_path / 'program', prints)
    software = {'programs': {code.programs[0]: {'path': path, 'version': version}}}
    one, = versions.offered(Environ(name='site', provider='modules', features=[feature], software=software), {})
    return one


@pytest.mark.parametrize('feature, prints, version, was_tried', [
    ('osu', 'echo "# OSU MPI Latency Test v5.9"', '5.9', True), ('osu', 'echo "# OSU MPI%s Latency Test v8.1"', '8.1', False),
    ('osu', 'echo usage', '', False), ('osu', 'sleep 60', '', False)])
def test_a_program_tells_its_version_by_its_own_option(tmp_path, monkeypatch, feature, prints, version, was_tried):
    monkeypatch.setattr(versions, '_SECONDS', 0.3 if 'sleep' in prints else 60.0)
    told = offered(tmp_path, feature, None, prints)
    assert told.version == version and (told.was_tried or not version) is (was_tried or not version)
    assert str(told) == f'osu {version}'.rstrip()


@pytest.mark.parametrize('feature, version, was_tried', [
    ('mdtest', '3.4', True), ('ior', '4.1', True), ('ior', '4.2', False), ('fio', '3.41', False), ('fio', '3.36', True)])
def test_a_version_is_one_that_was_tried_or_none(tmp_path, feature, version, was_tried):
    told = offered(tmp_path, feature, version)
    assert (told.version, told.was_tried) == (version, was_tried)


def test_a_build_of_spack_tells_its_version_by_its_spec(tmp_path):
    software = {'packages': {'osu-micro-benchmarks': {'spec': 'osu-micro-benchmarks@7.4 +cuda', 'hash': 'abc'}}}
    one, = versions.offered(Environ(name='spack', provider='spack', features=['osu'], software=software), {})
    assert str(one) == 'osu 7.4' and one.was_tried
