"""`parity export`: figures and words for Prometheus and as a table; cases that ReFrame sends to a server."""

from __future__ import annotations

import csv
import functools
import http.server
import io
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest

from commands import parity, process
from conftest import PATIENCE, TOP, shell
from parity.base import codes, units
from parity.base.errors import UsageError
from parity.measure.session import assemble
from stored import case
from warm import reframe

BAND = {'hpl': (100.0, -0.05, 0.05)}


def samples(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(r'^(\w+\{.*\}) (\S+)$', text, re.M)}


@pytest.fixture
def nights(stored, results):
    """Twelve calm nights, and one with a slow cell and a wrong one; a nightly that died."""
    for night in range(12):
        stored.add(case(99.0 + night % 3, refs=BAND), case(50.0, name='Toy %x="a\\b"'))
    stored.add(case(80.0, refs=BAND), case(50.0, name='Toy %x="a\\b"', result='fail', fail_phase='sanity', fail_reason='bad sum'))
    (results / 'heartbeat').mkdir()
    (results / 'heartbeat' / 'local.json').write_text('{"system": "local", "start": "2026-11-22T01:00:02Z", "end": null, "exit_code": null}')
    (results / 'heartbeat' / 'other.json').write_text('{"system": "other", "start": 7}')
    for name, wrong in (('other2', '"exit_code": true'), ('other3', '"exit_code": [0]'), ('other4', '"exit_code": 0, "system": ["other4"]')):
        (results / 'heartbeat' / f'{name}.json').write_text(f'{{"system": "{name}", "start": "2026-11-22T01:00:02Z", "end": null, {wrong}}}')


@pytest.mark.usefixtures('red_at_once')
def test_metrics_have_base_units_words_and_heartbeats(nights, tmp_path):
    file = tmp_path / 'out.prom'
    done = process('export', '--openmetrics', str(file))
    assert done.returncode == 0 and done.stdout == f'{file}\n', done.stderr
    text = file.read_text()
    assert text.endswith('\n# EOF\n') and '# UNIT parity_figure_flop_per_second flop_per_second\n' in text
    found, toy = samples(text), 'system="local",partition="default",environ="distro",check="Toy",case="Toy"'
    assert found[f'parity_figure_flop_per_second{{{toy},metric="hpl"}}'] == 80e9
    assert found[f'parity_figure_seconds{{{toy},metric="latency"}}'] == 1.5e-6
    assert found[f'parity_cell_verdict{{{toy},metric="hpl",verdict="regressed"}}'] == 1
    assert found[f'parity_cell_word{{{toy},metric="hpl",word="regressed"}}'] == 1
    assert found['parity_cells{system="local",verdict="wrong",word="wrong"}'] == 2 and found['parity_cells{system="local",verdict="ok",word="ok"}'] == 1
    assert found['parity_exit_code{system="local"}'] == 1 and found['parity_incidents{system="local",state="open"}'] == 0
    assert found['parity_heartbeat_start_timestamp_seconds{system="local"}'] == 1795309202
    assert not [name for name in found if 'heartbeat_exit_code' in name or 'other' in name]


def test_promtool_takes_the_metrics(nights):
    if not shutil.which('promtool'):
        pytest.skip("promtool is not here (Debian's package prometheus)")
    made = parity('export', '--openmetrics', '-')
    done = subprocess.run(['promtool', 'check', 'metrics'], input=made.stdout, capture_output=True, text=True)
    assert done.returncode == 0 and made.stdout, done.stdout + done.stderr


@pytest.mark.parametrize('unit, name, factor', [
    ('GB/s', 'bytes_per_second', 1e9), ('MiB/s', 'bytes_per_second', 2 ** 20), ('us', 'seconds', 1e-6), ('Mb/s', 'bytes_per_second', 125e3),
    ('Gflop/s', 'flop_per_second', 1e9), ('GUP/s', 'updates_per_second', 1e9), ('%', 'ratio', .01), ('ns/byte', 'seconds_per_byte', 1e-9), ('', '', 1),
    ('1/GB', 'per_byte', 1e-9), ('Matom-step/s', 'atom_steps_per_second', 1e6), ('MHz', 'hertz', 1e6), ('mb/s', 'mb_per_second', 1), ('mW', 'watts', 1e-3),
    ('Gflops', 'flop_per_second', 1e9), ('Gflops/s', 'flop_per_second', 1e9), ('Count of "é"', 'count_of', 1)])
def test_a_unit_in_base_units(unit, name, factor):
    assert units.base_unit(unit) == (name, pytest.approx(factor))


def test_no_unit_of_a_code_breaks_a_name():
    for unit in {unit for code in codes.every() for unit in code.units.values()}:
        assert re.fullmatch('[a-z_]*', units.base_unit(unit)[0]), unit


@pytest.mark.usefixtures('red_at_once')
def test_the_table_has_every_figure_with_its_word(nights):
    rows = list(csv.DictReader(io.StringIO(parity('export', '--csv', '-').stdout)))
    assert len(rows) == 13 * 4
    *_, slow, _, bad, _ = rows
    assert (slow['value'], slow['unit'], slow['word'], slow['low'], slow['node']) == ('80.0', 'Gflop/s', 'regressed', '95.0', 'node01')
    assert (bad['value'], bad['word'], bad['reason'], bad['case']) == ('', 'wrong', 'bad sum', 'Toy %x="a\\b"')
    assert slow['start'].endswith('T12:00:00Z') and rows[0]['word'] == 'ok'


def test_a_header_with_a_secret_that_is_not_named_is_refused(site, monkeypatch):
    with site.open('a') as file:
        file.write("httpjson: {url: 'http://x', extra_headers: {X: '$TOKE'}, secrets: [TOKEN]}\n")
    monkeypatch.setenv('TOKEN', 'hunter2')
    with pytest.raises(UsageError, match=r'httpjson.extra_headers.X: a \$ must begin .*; valid: \$TOKEN$'):
        assemble.site_configuration('local', sends=True)


def test_no_text_of_a_job_commands_a_terminal_or_a_spreadsheet(stored, site):
    stored.add(case(100.0, job_nodelist=['=SUM(1)\x1b[31m']), case(100.0, name='Toy %x=-1', result='fail', fail_phase='sanity', fail_reason='-bad\x1b]0;x'))
    table = parity('export', '--csv', '-').stdout
    rows = list(csv.DictReader(io.StringIO(table)))
    assert rows[0]['node'] == "'=SUM(1)\\x1b[31m" and rows[2]['reason'] == "'-bad\\x1b]0;x" and rows[0]['value'] == '100.0'
    for words in (['nodes'], ['node', '=SUM(1)\x1b[31m'], ['verdict', '--all'], ['show', 'Toy.hpl'], ['show', 'x\x1b[31m'], ['summary']):
        done = parity(*words)
        assert '\x1b' not in done.stdout + done.stderr + table and done.stdout + done.stderr, words


def test_what_is_asked_wrongly_or_not_stored(stored):
    for words, code, said in (([], 2, 'name what to export'), (['--csv', '-', '--since', 'soon'], 2, "--since: 'soon' must be a time"),
                              (['--openmetrics', '-', '--since', '7d'], 2, 'is only for --csv'),
                              (['--openmetrics', '-'], 3, 'no session is stored'), (['--csv', '-'], 3, 'no session is stored')):
        done = parity('export', *words)
        assert done.returncode == code and said in done.stderr and not done.stdout, words
    stored.add(case(100.0), time_start_unix=time.time() - 60)
    assert 'since then' in parity('export', '--csv', '-', '--since', '1s').stderr


def test_a_full_disk_is_named_with_the_file(nights, results, mounted):
    place = mounted / 'results'
    shutil.copytree(results, place, ignore=shutil.ignore_patterns('cache'))
    shell('cat /dev/zero >fill', mounted)
    for option, file in (('--csv', mounted / 'x.csv'), ('--openmetrics', mounted / 'x.prom')):
        done = parity('export', option, str(file))
        assert (done.returncode, done.stderr) == (4, f'parity: {file}: No space left on device\n')
    done = parity('export', '--csv', '-', PARITY_RESULTS=str(place))
    assert done.returncode == 4 and re.fullmatch(f'parity: {place}/cache/.*: No space left on device\n', done.stderr), done.stderr
    assert not [file for file in mounted.rglob('*') if file.name.startswith('.') or file.parent == mounted and file.suffix]


class Server(http.server.BaseHTTPRequestHandler):
    got: list[dict] = []
    headers_got: list[str] = []

    def do_POST(self):
        self.headers_got.append(self.headers['Authorization'])
        self.got.append(json.loads(self.rfile.read(int(self.headers['Content-Length']))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_each_case_is_sent_to_the_server_that_a_system_names(checkout):
    run = '-c checks/storage/filecopy -n "FileCopy %mode=small-copy %clients=one %sync=as-is" -r'
    server = http.server.HTTPServer(('127.0.0.1', 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with (checkout / 'systems/local/system.yaml').open('a') as file:
        file.write(f'httpjson: {{url: "http://127.0.0.1:{server.server_port}/x", extras: {{site: here}}, ignore_keys: [check_parity], '
                   "extra_headers: {Authorization: 'Bearer $TOKEN'}, secrets: [TOKEN]}\n")
    try:
        assert reframe(checkout, '-c checks/storage/filecopy -l').returncode == 0, 'only a run needs the secrets'
        lacks = reframe(checkout, run)
        assert lacks.returncode == 2 and 'httpjson.secrets: not set in the environment: TOKEN' in lacks.stderr
        done = reframe(checkout, run, TOKEN='hunter2')
    finally:
        server.shutdown()
    assert len(Server.got) == 1, done.stdout + done.stderr
    sent, = Server.got
    assert Server.headers_got == ['Bearer hunter2']
    assert shell('grep -r hunter2 results', checkout).returncode == 1, 'no file has the secret'
    assert (sent['site'], sent['check_perf_rate_unit']) == ('here', 'MB/s') and 'check_parity' not in sent
    assert list((checkout / 'results/perflogs/local/default').glob('FileCopy.log')), 'the journal is written all the same'


# ---- the dashboard

DASHBOARD = json.loads((TOP / 'ci' / 'pipelines' / 'grafana-dashboard.json').read_text())
QUERIES = [target['expr'] for panel in DASHBOARD['panels'] for target in panel['targets']]
#: Of the export of the fixture: other figures have other units.
NOT_MEASURED = {'parity_figure_bytes_per_second', 'parity_figure_operations_per_second'}


def test_the_dashboard_asks_for_metrics_that_are_written(nights):
    written = {line.partition('{')[0] for line in parity('export', '--openmetrics', '-').stdout.splitlines() if not line.startswith('#')}
    asked = {name for query in QUERIES for name in re.findall(r'parity_\w+', query)}
    assert asked - written <= NOT_MEASURED, asked - written
    variables = {variable['name'] for variable in DASHBOARD['templating']['list']}
    assert {name for query in QUERIES for name in re.findall(r'\$(\w+)', query)} <= variables


@pytest.mark.skipif(not shutil.which('prometheus'), reason="prometheus is not here (Debian's package prometheus)")
def test_prometheus_answers_each_query_of_the_dashboard(nights, tmp_path):
    """Serve the metrics, and let Prometheus read them until it has."""
    folder = tmp_path / 'served'
    folder.mkdir()
    (folder / 'metrics').write_text(parity('export', '--openmetrics', '-').stdout)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def guess_type(self, path):
            return 'application/openmetrics-text; version=1.0.0'

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / 'prometheus.yml').write_text(
        'scrape_configs:\n  - job_name: parity\n    scrape_interval: 1s\n    static_configs:\n'
        f'      - targets: ["127.0.0.1:{server.server_port}"]\n')
    started = subprocess.Popen(['prometheus', f'--config.file={tmp_path / "prometheus.yml"}', f'--storage.tsdb.path={tmp_path / "data"}',
                                f'--web.listen-address=127.0.0.1:{port}'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def answer(query: str) -> list:
            text = query.replace('$system', '.+').replace('$check', '.+')
            with urllib.request.urlopen(f'http://127.0.0.1:{port}/api/v1/query?' + urllib.parse.urlencode({'query': text})) as page:
                found = json.load(page)
            assert found['status'] == 'success', found
            return found['data']['result']

        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                if answer('parity_exit_code'):
                    break
            except OSError:
                assert started.poll() is None, 'Prometheus ended'
            time.sleep(0.5)
        for query in QUERIES:
            assert answer(query) or any(name in query for name in NOT_MEASURED), query
    finally:
        started.kill()
        started.wait()
        server.shutdown()
