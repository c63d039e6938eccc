"""`python -m dev.bench.codes`: our programs beside those by hand, in turns, with programs that print recorded outputs."""

import os

import pytest

from dev.bench import codes
from parity.measure.check.sizing import Dense
from replay import recorded

PROBLEM = Dense(4000, 192, 1, 1, 'N = 4000')
TRIAD = (recorded('stream') / 'stream_c-omp2.txt').read_text()


@pytest.fixture
def folder(tmp_path):
    """Makes a folder of programs, each of which prints a text and notes that it ran."""
    def make(name: str, **texts: str):
        programs = tmp_path / name / 'bin'
        programs.mkdir(parents=True)
        for program, text in texts.items():
            output = programs / f'{program}.txt'
            output.write_text(text)
            file = programs / {'stream': 'stream_c.exe', 'fio': 'fio'}[program]
            file.write_text(f'#!/bin/sh\necho {name} $OMP_NUM_THREADS $OMP_PROC_BIND $GLIBC_TUNABLES >>{tmp_path}/ran\nexec cat {output}\n')
            file.chmod(0o755)
        return codes.Build(tmp_path / name, {'PATH': f'{programs}:$PATH'}, 2)
    return make


def test_a_code_runs_in_turns_and_its_ratio_is_printed(folder, tmp_path, capsys):
    faster = TRIAD.replace('42826.3     0.012750     0.011208', '53533.0     0.012750     0.008966')
    ours, hand = folder('ours', stream=TRIAD), folder('hand', stream=faster)
    assert not codes.Bench(ours, hand, PROBLEM, 2).run(['stream'])
    assert capsys.readouterr().out.startswith('STREAM Triad over the same by hand    ')
    assert (tmp_path / 'ran').read_text().split('\n')[:4] == [f'{side} 2 spread' for side in ('ours', 'hand', 'hand', 'ours')]
    assert codes.Bench(hand, ours, PROBLEM, 2).run(['stream']) and ' 1.250 (' in capsys.readouterr().out


def test_the_ratio_of_a_latency_is_turned(folder, monkeypatch, capsys):
    ours, hand = folder('ours', fio=''), folder('hand', fio='')
    race = codes.Race('osu', 'latency', 'fio', 'latency_8', 'us', lower=True)
    monkeypatch.setattr(codes, 'races', lambda *_: [race])
    monkeypatch.setattr(codes.Build, 'race', lambda build, _: 2.0 if build is ours else 1.0)
    assert not codes.Bench(ours, hand, PROBLEM, 1).run(['osu'])
    assert capsys.readouterr().out.startswith('latency, by hand over ours') and ours.program('../libexec/fio') == str(ours.bin / 'fio')


def test_what_is_not_there_is_left_out_and_what_fails_is_not(folder, capsys):
    ours, hand = folder('ours', stream=TRIAD, fio='fio: no such file\n'), folder('hand', fio='')
    assert codes.Bench(ours, hand, PROBLEM, 1).run(['stream', 'hpl', 'npb'])
    printed = capsys.readouterr().out
    assert f'skipped: STREAM Triad: no stream_c.exe in {hand.bin}\n' in printed
    assert f'skipped: HPL over DGEMM of its shape: no xhpl in {ours.bin}\n' in printed and 'skipped: NPB CG.A: no cg.A.x' in printed
    assert not codes.Bench(ours, hand, PROBLEM, 1).run(['fio']) and 'failed: fio random read, 4 KiB: ' in capsys.readouterr().out
    assert codes.Bench(ours, None, PROBLEM, 1).run(['fio']) and 'no --hand FOLDER' in capsys.readouterr().out


def test_both_sides_run_with_the_variables_of_the_checks(folder):
    build = folder('ours', stream=TRIAD)
    assert build.variables['PATH'] == f'{build.bin}:{os.environ["PATH"]}' and build.variables['OPENBLAS_NUM_THREADS'] == '1'
    assert build.triad(1, 'close') == 42826.3
