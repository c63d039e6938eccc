"""`parity replay`: histories in several forms, what would have been told and what missed."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import json
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

from commands import parity
from conftest import TOP
from parity.base import console
from parity.base.errors import NothingMeasured, UsageError
from parity.cli import replay as command
from parity.judge.stats import replay
from parity.judge.store import histories, imported, reading, same_run, tables
from parity.lab import replay as words

ANY = histories.Directions()


def series(seed: int, nights: int = 120, drop: float = 0.0, at: int = 80, sd: float = 0.01) -> list[float]:
    rng = np.random.default_rng(seed)
    return [100 * float(np.exp(rng.normal(0, sd))) * (1 - drop * (at <= i < at + 40)) for i in range(nights)]


def day(i: int) -> str:
    return str(datetime.date(2026, 1, 1) + datetime.timedelta(i))


def detect_form(**columns: list[float]) -> str:
    rows = [f'{name},{day(i)},run,0,{value:.4f},codes' for name, values in columns.items() for i, value in enumerate(values)]
    return '\n'.join(['series,night,kind,run,value,group', *rows]) + '\n'


def of(path, text, columns=None, directions=ANY, compress=False) -> tuple[histories.Source, replay.Life]:
    path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    source, = histories.of_paths([path], columns or {}, directions)
    return source, replay.live(source.history, 7, 1 / 3000)


def test_slowdowns_of_like_series_that_began_together_are_one_incident(tmp_path):
    source, lived = of(tmp_path / 'h.csv.gz', detect_form(mg=series(1, drop=0.1), cg=series(2, drop=0.06), ep=series(3)), compress=True)
    incident, = lived.incidents
    assert source.form == 'CSV of parity detect' and [s.series for s in incident.slowdowns] == ['mg', 'cg']
    assert incident.slowdowns[0].loss == pytest.approx(0.1, abs=0.01) and day(80) <= incident.begin <= day(83)
    assert incident.end and incident.slowdowns[0].accepted and lived.drops == 2 and not lived.missed and lived.nights == 120
    text = '\n'.join(words.lines(source, lived, 1, 7))
    assert '1 incident in 120 nights' in text and '2 of 2 lasting drops' in text and '3 of 3 series would show' in text
    document = words.document(source, lived)
    assert len(document['series']['mg']['found']) == 1 and document['series']['ep']['found'] == [] and json.dumps(document)


def test_a_drop_below_the_noise_is_missed_with_the_reason(tmp_path):
    _, lived = of(tmp_path / 'h.csv', detect_form(loud=series(4, nights=300, drop=0.5, at=5, sd=0.1)))
    assert not any(m.judged for m in lived.missed) and lived.series[0].noise > 0.05 and lived.series[0].blind


def test_nothing_later_than_a_night_is_used(tmp_path):
    values = series(5, drop=0.1)
    _, whole = of(tmp_path / 'a.csv', detect_form(mg=values))
    _, part = of(tmp_path / 'b.csv', detect_form(mg=values[:90]))
    assert part.series[0].alarms == whole.series[0].alarms != []


def test_columns_may_have_other_names(tmp_path):
    text = 'date,bench,took,unit\n' + ''.join(f'{day(i)}T02:00:00Z,mg,{value:.3f},ms\n' for i, value in enumerate(series(6, drop=-0.12)))
    source, lived = of(tmp_path / 'h.csv', text, {'series': 'bench', 'value': 'took'})
    assert source.form == 'CSV, a row a figure' and source.unknown == 0, 'the unit tells the direction'
    assert [i.slowdowns[0].loss > 0.08 for i in lived.incidents] == [True]


def test_a_column_a_series_and_an_unknown_direction_is_judged_both_ways(tmp_path):
    text = 'time,host,triad\n' + ''.join(f'{day(i)},n{i % 3},{value:.3f}\n' for i, value in enumerate(series(7, drop=0.1)))
    source, lived = of(tmp_path / 'h.csv', text)
    assert source.unknown == 1 and [s.name for s in lived.series] == ['triad (if less is better)', 'triad (if more is better)']
    assert {s.series for i in lived.incidents for s in i.slowdowns} >= {'triad (if more is better)'}
    source, _ = of(tmp_path / 'h.csv', text, directions=histories.Directions(higher='tri'))
    assert source.unknown == 0 and source.history.names == ['triad']


def perflog(folder, system='daint', partition='gpu', name='Stream'):
    words = ('job_completion_time_unix', 'display_name', 'system', 'partition', 'environ', 'jobid', 'result',
             *(f'copy_{column}' for column in ('value', 'ref', 'lower_thres', 'upper_thres', 'unit')))
    start = int(datetime.datetime(2026, 1, 1, 12).timestamp())
    rows = [(start + 86400 * i, name, system, partition, 'gnu', i, 'pass', f'{value:.3f}', None, None, None, 'MB/s')
            for i, value in enumerate(series(8, nights=30, drop=0.15, at=20))]
    (folder / f'{name}.log').write_text('\n'.join('|'.join(map(str, row)) for row in [words, *rows]) + '\n')
    return folder


def test_perflogs_of_a_system_that_parity_does_not_know_are_replayed(tmp_path, results):
    source, = histories.of_paths([perflog(tmp_path)], {}, ANY)
    lived = replay.live(source.history, 7, 1 / 3000)
    assert source.form == "ReFrame's results" and source.history.names == ['Stream.copy@daint:gpu+gnu'] and len(lived.incidents) == 1
    assert not (results / 'results.db').exists(), 'nothing is stored'


def test_slowdowns_of_one_partition_that_began_together_are_one_incident(tmp_path):
    for name, partition in (('Alpha', 'gpu'), ('Beta', 'gpu'), ('Gamma', 'cpu')):
        perflog(tmp_path, partition=partition, name=name)
    source, = histories.of_paths([tmp_path], {}, ANY)
    names = [{s.series.partition('.')[0] for s in i.slowdowns} for i in replay.live(source.history, 7, 1 / 3000).incidents]
    assert sorted(map(len, names)) == [1, 2] and {'Alpha', 'Beta'} in names


def test_results_of_asv_are_replayed_by_commit(tmp_path):
    source, = histories.of_paths([TOP / 'tests' / 'recorded' / 'asv'], {}, histories.Directions(higher='track'))
    where = '@vm:existing-py_usr_bin_python3'
    assert source.form == 'results of asv, a night a commit' and sorted(source.history.names) == [
        f'b.Sum.time_sum(10){where}', f'b.Sum.time_sum(1000){where}', f'b.peakmem_list(){where}', f'b.track_answer(){where}']
    assert source.history.signs == [-1, -1, -1, 1] and set(source.history.labels) == {f'2026-11-0{i}' for i in (1, 2, 3)}
    (tmp_path / 'benchmarks.json').write_text('{}')
    with pytest.raises(NothingMeasured, match='no result of a benchmark'):
        [*histories.of_paths([tmp_path], {}, ANY)]
    (tmp_path / 'vm').mkdir()
    (tmp_path / 'vm' / 'ab-env.json').write_text('{"date": 1}')
    with pytest.raises(UsageError, match='this is no result of asv, version 2'):
        [*histories.of_paths([tmp_path], {}, ANY)]


RECORDED = TOP / 'tests' / 'recorded'


def test_results_of_another_tracker_are_found_by_looking_and_their_direction_is_known():
    for given in ('', 'benchmark-action'):
        source, = histories.of_paths([RECORDED / 'benchmark-action' / 'data.js.gz'], {}, ANY, given)
        assert source.form == 'results of github-action-benchmark, a night a run of it'
        assert source.unknown == 0 and source.history.labels[0] == '2026-09-01'
    lived = replay.live(source.history, 7, 1 / 3000)
    begin = {s.series: s.begin for i in lived.incidents for s in i.slowdowns}
    assert begin['times: halo exchange'] in ('2026-09-21', '2026-09-22') and not {'times: checkpoint', 'rates: stencil'} & set(begin)


def test_several_nights_of_one_date_are_nights_by_their_time(tmp_path):
    nights = [{'date': 1788228000000 + 3600000 * i, 'tool': 'go', 'benches': [{'name': 'b', 'value': 7.5, 'unit': 'ns/op'}]} for i in range(30)]
    (tmp_path / 'x.json').write_text(json.dumps({'entries': {'s': nights}}))
    source, = histories.of_paths([tmp_path / 'x.json'], {}, ANY)
    assert source.history.labels[:2] == ['2026-09-01T02:00:00', '2026-09-01T03:00:00'] and source.history.signs == [-1]


@pytest.mark.parametrize('unit, sign', [('ns/op', -1), ('iter/sec', 1), ('GB/s', 1), ('us', -1), ('Mcell/s', 1), ('', 0), ('%', 0), ('ops', 1)])
def test_a_unit_tells_the_direction(unit, sign):
    assert ANY.sign('x', unit) == sign


@pytest.mark.parametrize('name, text, why', [
    ('x.json', '{"entries": {"s": [{"date": 1}]}}', 'x.json: this is no data.js or JSON of github-action-benchmark'),
    ('data.js', 'window.BENCHMARK_DATA = {"entries": ', 'data.js: must be JSON'),
    ('x.json', '{"data": []}', 'x.json:1: the form of this file is not known'), ('x.json', '7', 'x.json:1: the form of this file is not known'),
    ('x.json', '{"entries": {}}', 'no result of a benchmark')])
def test_files_of_other_trackers_that_are_none_are_refused_by_name(tmp_path, name, text, why):
    (tmp_path / name).write_text(text)
    done = parity('replay', str(tmp_path / name))
    assert done.returncode == (3 if 'no result' in why else 2) and why in done.stderr and done.stderr.count('\n') == 1


def test_a_terminal_shows_how_far_it_is_and_the_time_left(monkeypatch, tmp_path):
    states, texts = [], []

    @contextlib.contextmanager
    def progress(state):
        states.append(state)
        yield

    def live(history, accept_after, rate, least, done):
        texts.append(states[0]())
        time.sleep(0.02)
        done(1)
        texts.append(states[0]())
    monkeypatch.setattr(console, 'progress', progress)
    monkeypatch.setattr(replay, 'live', live)
    (tmp_path / 'two.csv').write_text('night,a,b\n' + ''.join(f'2026-01-{day:02},1.5,2.5\n' for day in range(1, 20)))
    source, = histories.of_paths([tmp_path / 'two.csv'], {}, histories.Directions(higher='.'))
    with monkeypatch.context() as terminal:
        terminal.setattr('sys.stdout', SimpleNamespace(isatty=lambda: True))
        command._live(source.history, 7, 1 / 3000, 0.04)
    assert texts[0] == (0, 2, '0 of 2 series') and texts[1] == (1, 2, '1 of 2 series, 0.0 s left')
    command._live(source.history, 7, 1 / 3000, 0.04)
    assert len(states) == 1, 'no progress in a pipe'


def test_the_page_draws_the_map_and_the_curves(tmp_path):
    (tmp_path / 'h.csv').write_text(detect_form(**{'m<g': series(1, drop=0.1), 'cg': series(2), 'counts': [0.0] * 120}))
    done = parity('replay', str(tmp_path / 'h.csv'), '--page', str(tmp_path / 'h.html'))
    page = (tmp_path / 'h.html').read_text()
    assert done.stdout.endswith('h.html\n') and page.count('class="plot"') == 2 and 'm&lt;g' in page and 'm<g' not in page
    assert 'M81 0V10"' in page and 'class="change"' in page
    refused = parity('replay', str(tmp_path / 'h.csv'), str(tmp_path / 'h.csv'), '--page', str(tmp_path / 'h.html'))
    assert refused.returncode == 2 and '--page is for one history; 2 were found' in refused.stderr


def test_a_system_s_own_nights_are_replayed(tmp_path, results):
    with pytest.raises(NothingMeasured, match='local: no night is stored'):
        histories.of_system('local', '', ANY)
    imported.run(perflog(tmp_path, 'local', 'default'), False)
    assert len(replay.live(histories.of_system('local', '', ANY).history, 0, 1 / 3000).incidents) == 1
    with pytest.raises(NothingMeasured, match='since 2027-01-01'):
        histories.of_system('local', '2027-01-01', ANY)


@pytest.mark.parametrize('text, why', [
    ('a,b\n1,2\n', ":1: the form of this file is not known. It begins 'a,b'. Looked for: series,night,kind,run,value"),
    ('date,b\n2026-01-01,2\n2026-01-02T00:00:00,3\n2026-01-03T00:00:00Z,3\n', ":4: night '2026-01-03T00:00:00Z': times with and without a zone"),
    ('date,b\n2026-01-01,2\n2026.01.02,3\n', ":3: night '2026.01.02': dates in two forms"),
    ('date,b\n2026-01-01,2\n2026-01-02,3\n2026-01-02,3\n', ":4: night '2026-01-02' stands on an earlier line"),
    ('date,b\n2026-01-01,2\n01/02/2026,3\n', ":3: night '01/02/2026' is neither"), ('date,b\n2026-01-01,2\n2026-13-02,3\n', ':3: night'),
    ('date,b\n2026-01-01,2\n7,3\n', ':3: night'), ('date,b\n2026-01-01,2\n2026-01-02,-3\n', ':3: value -3 is not above 0'),
    ('date,b\n2026-01-01,2\n2026-01-02,1e308\n', ':3: value 1e308 is too large'), ('date,b\n2026-01-01,x\n', 'no column has numbers'),
    ('date,b\n2026-01-01,1\n2026-01-02,x\n', ":3: value 'x' is no number"), ('', ':1: ')])
def test_bad_files_end_with_2_and_name_the_line(tmp_path, text, why):
    (tmp_path / 'h.csv').write_text(text)
    done = parity('replay', str(tmp_path / 'h.csv'))
    assert done.returncode == 2 and why in done.stderr and done.stderr.count('\n') == 1


@pytest.mark.parametrize('words, code, why', [
    ([], 2, 'name files or folders, or a system'), (['/nowhere'], 2, '/nowhere: no such file or folder'),
    (['x.csv', '--columns', 'foo=bar'], 2, 'KEY one of series, night'), (['x.csv', '--higher', '('], 2, "--higher '('"),
    (['x.csv', '--since', '2026-01-01'], 2, '--since needs --system'),
    (['--system', 'local', '--since', 'yesterday'], 2, "--since 'yesterday': must be a date"),
    (['x.csv', '--format', 'xml'], 2, '--format xml: valid are csv, perflog'), (['{folder}'], 2, 'no history is in this folder. Looked for: *.csv'),
    (['{folder}/two.csv'], 2, 'two.csv: the longest series has 2 nights; a series is judged from night 11 on')])
def test_a_mistake_in_the_command_line_is_told(tmp_path, words, code, why):
    if words == ['{folder}/two.csv']:
        (tmp_path / 'two.csv').write_text('date,b\n2026-01-01,2\n2026-01-02,3\n')
    done = parity('replay', *(word.format(folder=tmp_path) for word in words))
    assert done.returncode == code and why in done.stderr


def test_the_command_prints_a_screen_or_json(tmp_path):
    (tmp_path / 'h.csv').write_text(detect_form(mg=series(9, drop=0.1)))
    done = parity('replay', str(tmp_path / 'h.csv'))
    assert done.returncode == 0 and done.stdout.splitlines()[0].endswith('1 incident in 120 nights; at most 1 a month by chance.')
    one, = json.loads(parity('replay', str(tmp_path / 'h.csv'), '--json').stdout)
    assert one['incidents'][0]['series'][0]['name'] == 'mg' and one['form'] == 'CSV of parity detect'


@pytest.mark.parametrize('head, rows', [
    ('"date","triad"', '"{}",{}'), ('"","date","triad"', '"7","{}",{}'), (',date,triad', '0,{},{}'), ('\ufeff"Date","triad"\r', '{},{}\r'), ('"date","triad, MB/s"', '{},{}'), ('"date","the\ntriad"', '"{}",{}'),
    ('"series","night","kind","run","value"', '"triad","{}","run",0,{}')], ids=['quoted', 'R', 'pandas', 'Excel', 'comma', 'line', 'detect'])
def test_a_header_that_r_excel_or_pandas_quotes_is_read(tmp_path, head, rows):
    source, lived = of(tmp_path / 'h.csv', head + '\n' + ''.join(rows.format(day(i), value) + '\n' for i, value in enumerate(series(7, drop=0.1))), directions=histories.Directions(higher='triad'))
    assert len(source.history.names) == 1 and 'triad' in source.history.names[0] and lived.nights == 120


@pytest.mark.parametrize('name, text, said', [
    ('a.json', '[' * 100_000, 'a.json:1: the form of this file is not known'), ('a.json', '{"entries":' + '[' * 100_000, 'a.json: nested too deeply'), ('a.csv', f'date\n{day(1)}\n', 'a.csv: no column has numbers'),
    ('a.csv', ',date\n' + f'1,{day(1)}\n', 'a.csv: no column has numbers'), ('a.csv', '"date",' + '"' + 'x' * 200_000, 'a.csv:1: the header cannot be read as CSV')])
def test_a_history_that_is_none_is_one_sentence(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    done = parity('replay', str(tmp_path / name))
    assert done.returncode == 2 and said in done.stderr and 'Traceback' not in done.stderr, done


def test_what_is_no_regular_file_is_named_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'fifo.csv')
    (tmp_path / 'dead.csv').symlink_to('gone')
    folder = tmp_path / 'folder'
    folder.mkdir()
    os.mkfifo(folder / 'a.json')
    for given, said in (([tmp_path / 'fifo.csv'], 'fifo.csv: a FIFO; must be a regular file'), ([tmp_path / 'fifo.csv', '--format', 'csv'], 'fifo.csv: a FIFO; must be'),
                        ([tmp_path / 'dead.csv'], 'dead.csv: a link to gone, which is not there; name a file'), ([folder], 'a.json: a FIFO; must be')):
        done = parity('replay', *map(str, given))
        assert done.returncode == 2 and said in done.stderr, done


def test_what_is_read_has_limits_that_the_help_states(tmp_path, monkeypatch):
    text = parity('replay', '--help').stdout
    stated = ' '.join(text.replace('│', ' ').split())
    assert f'At most {reading.FILES} files, {reading.BYTES >> 20} MiB unpacked and {reading.COLUMNS} columns' in stated
    for name in 'abc':
        (tmp_path / f'{name}.csv.gz').write_bytes(gzip.compress(detect_form(mg=series(1)).encode()))
    whole = len(detect_form(mg=series(1)))
    for module, limit, most, said in ((reading, 'BYTES', 2 * whole, 'c.csv.gz: more than 0 MiB'), (reading, 'FILES', 2, f'{tmp_path}: 3 files; must be at most 2'),
                                      (tables, 'COLUMNS', 5, 'a.csv.gz:1: 6 columns; must have at most 5')):
        with monkeypatch.context() as limited:
            limited.setattr(module, limit, most)
            done = parity('replay', str(tmp_path))
            assert done.returncode == 2 and said in done.stderr, done
    assert parity('replay', str(tmp_path)).returncode == 0
    taken = reading.Reading()
    list(histories.of_paths([tmp_path], {}, ANY, reading=taken))
    assert taken.state() == (0, 0, f'3 files, {3 * whole / 1e6:.0f} MB read: c.csv.gz')


def test_a_bomb_is_not_unpacked_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, 'BYTES', 1 << 20)
    (tmp_path / 'a.csv.gz').write_bytes(gzip.compress(b'date,x\n' + bytes(50 << 20)))
    read, sizes = gzip.GzipFile.read, []
    monkeypatch.setattr(gzip.GzipFile, 'read', lambda file, size=-1: sizes.append(size) or read(file, size))
    with pytest.raises(UsageError, match='more than 1 MiB'):
        list(histories.of_paths([tmp_path / 'a.csv.gz'], {}, ANY))
    assert max(sizes) <= (1 << 20) + 1 and min(sizes) > 0


def google(value: float, day: int, **more) -> dict:
    first = {'name': 'copy/8', 'run_name': 'copy/8', 'run_type': 'iteration', 'real_time': 1 / value, 'cpu_time': 1.0, 'time_unit': 'ns', 'bytes_per_second': value}
    return {'context': {'date': f'2026-01-{day:02}T03:00:00+01:00', 'library_version': 'v1.9.0', 'library_build_type': 'release'},
            'benchmarks': [first | more, {**first, 'name': 'copy/8_mean', 'run_type': 'aggregate'}]}


def test_a_folder_of_google_benchmark_is_a_history(tmp_path):
    for day in range(1, 20):
        (tmp_path / f'{day}.json').write_text(json.dumps(google(100.0 + day % 3, day)))
    source, = histories.of_paths([tmp_path], {}, ANY)
    assert sorted(source.history.names) == ['copy/8', 'copy/8: bytes_per_second'] and source.unknown == 0
    assert source.form == 'results of Google Benchmark, a night a run of it'


def test_a_file_of_google_benchmark_that_is_broken_is_named(tmp_path):
    broken = google(1.0, 1)
    del broken['benchmarks'][0]['real_time']
    (tmp_path / '1.json').write_text(json.dumps(broken))
    done = parity('replay', str(tmp_path))
    assert done.returncode == 2 and f'{tmp_path}/1.json: this is no JSON of Google Benchmark' in done.stderr


def test_steps_that_were_accepted_add_up_in_the_foot(tmp_path):
    """Three steps of 4 % in 90 nights: each alone is less than the 5 % that count as missed."""
    values = [100 * 0.96 ** (night // 23) * (1 + 0.002 * (-1) ** night) for night in range(92)]
    (tmp_path / 'h.csv').write_text('date,a,b\n' + ''.join(
        f'{datetime.date(2026, 1, 1) + datetime.timedelta(night)},{value},100.{night % 3}\n' for night, value in enumerate(values)))
    printed = parity('replay', str(tmp_path / 'h.csv'), '--higher', '.').stdout
    assert 'missed     nothing: no step of 5 % lasted' in printed, printed
    assert '1 series ends 5 % or more below the first nights: steps that were accepted add up' in printed and ' -11.5%  a' in printed, printed


@pytest.mark.parametrize('names, test', [({'display_name': 'Toy %size=2'}, 'Toy %size=2'), ({'display_name': ''}, 'Toy_1'), ({}, 'Toy_1')])
def test_a_test_of_another_run_is_the_same_by_the_name_that_it_shows(names, test):
    case = {'system': 's', 'partition': 'p', 'environ': 'e', 'name': 'Toy_1', **names}
    assert same_run._test(case) == ('s', 'p', 'e', test)
