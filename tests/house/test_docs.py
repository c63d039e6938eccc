"""The documentation: generated pages are up to date, the walks work when they are followed to the letter."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import warm
from conftest import TOP, shell
from dev import files_page

DOCS = TOP / 'docs'


def test_the_page_of_the_files_is_up_to_date():
    assert (DOCS / 'files.md').read_text() == files_page.page(), 'python -m dev.files_page >docs/files.md'


def test_the_page_of_the_codes_is_up_to_date():
    assert (DOCS / 'codes.md').read_text() == files_page.codes_page(), 'python -m dev.files_page codes >docs/codes.md'


def _pages(nav) -> list[str]:
    return [nav] if isinstance(nav, str) else [page for entry in (nav.values() if isinstance(nav, dict) else nav) for page in _pages(entry)]


def test_the_site_has_every_page_that_it_names():
    named = _pages(yaml.safe_load((TOP / 'mkdocs.yml').read_text())['nav'])
    assert [page for page in named if not (DOCS / page).is_file()] == []


def test_the_readme_and_the_start_page_have_one_table_of_every_page():
    tables = [re.search(r'(?<=\| you want to \| read \|\n\|---\|---\|\n)(\|.*\n)+', file.read_text())[0]
              for file in (TOP / 'README.md', DOCS / 'index.md')]
    assert tables[0].replace('](docs/', '](') == tables[1]
    pages = {page.name for page in DOCS.glob('*.md')} - {'index.md'}
    assert set(re.findall(r'\]\(([\w-]+\.md)\)', tables[1])) == pages
    assert 'without-root.md' in tables[1].splitlines()[0]


@pytest.mark.parametrize('page', sorted(DOCS.glob('*.md')), ids=lambda p: p.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r'\]\(([^)#:]+\.md)(?:#[^)]*)?\)', page.read_text()):
        assert (page.parent / target).is_file(), target


def follow(page: Path, checkout: Path) -> None:
    """Write the files that a page shows, and change the lines: a block is of the file that was named last."""
    path = ''
    for match in re.finditer(r'`([\w/.-]+\.(?:py|yaml|txt))`|^```(\w+)\n(.*?)^```', page.read_text(), re.M | re.S):
        path, language, text = match[1] or path, match[2], match[3]
        file = checkout / path
        if language == 'diff':
            kept, wanted = (''.join(f'{line[1:]}\n' for line in text.splitlines() if line[0] != sign) for sign in '+-')
            assert file.read_text().count(kept) == 1, f'{path} has no such lines: {kept}'
            file.write_text(file.read_text().replace(kept, wanted))
        elif language:
            assert not file.exists()
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


def test_a_new_check_by_the_letter(checkout):
    """Without HPCG's lines the page is followed: what it types is what parity has."""
    room, was = checkout / 'checks' / 'compute' / 'hpcg', (TOP / 'checks' / 'compute' / 'hpcg')
    shutil.copytree(was / 'outputs', room / 'outputs')
    for name in ('code.yaml', 'hpcg.py', 'hpcg_output.py', 'expected.yaml'):
        (room / name).unlink()
    lines = (TOP / 'spack.yaml').read_text()
    (checkout / 'spack.yaml').write_text(lines.replace('  - hpcg@3.1\n', ''))
    follow(DOCS / 'new-check.md', checkout)
    for name in ('code.yaml', 'hpcg.py', 'hpcg_output.py', 'expected.yaml'):
        assert (room / name).read_text() == (was / name).read_text()
    assert (checkout / 'spack.yaml').read_text() == lines
    site = checkout / 'systems' / 'example-slurm' / 'system.yaml'
    site.write_text(site.read_text().replace('codes: [', 'codes: [hpcg, ', 1))
    parsed = warm.parity(checkout, f"parse hpcg '{was}/outputs/nx32-np2.txt'")
    assert 'gflops 4.4996 Gflop/s' in parsed.stdout, parsed.stderr
    done = warm.reframe(checkout, '-c checks/ -n Hpcg --system example-slurm --dry-run')
    assert 'Ran 3/3 test case(s) from 1 check(s)' in done.stdout, done.stdout + done.stderr
    smallest_check(checkout)


def smallest_check(checkout: Path) -> None:
    """Its lines run as they stand on the page: a damaged output is refused, and OpenSSL is measured where it is."""
    page = (DOCS / 'new-check.md').read_text()
    _, record, read, run, damage = re.findall('^    ([a-z].*(?:outputs|Sha256|-k openssl).*)', page, re.M)[:5]
    done = shell(f'. ci/activate; {read}', checkout)
    assert json.loads(done.stdout)['metrics'] == {'rate': 735.33576533}, done.stdout + done.stderr
    done = shell(damage.replace('ci/test', f'{sys.executable} -m pytest -p no:cacheprovider'), TOP, PARITY_ROOT=str(checkout))
    assert re.search(r'\n2\d passed', done.stdout), done.stdout
    if shutil.which('openssl'):
        done = shell(f'. ci/activate; {record}; {read} && {run}', checkout, PATH=with_hurried_openssl(checkout / 'hurried'))
        assert '"rate": ' in done.stdout and 'P: rate: ' in done.stdout and 'Ran 1/1' in done.stdout, done.stdout + done.stderr


def with_hurried_openssl(folder: Path) -> str:
    """Make an OpenSSL that measures for 1 s where it is asked for 3; return a PATH that begins with it."""
    folder.mkdir()
    hurried = folder / 'openssl'
    hurried.write_text('#!/bin/bash\n'
                       f'"{shutil.which("openssl")}" "${{@/#3/1}}" 2> >(sed "s/^+DT:sha256:1:/+DT:sha256:3:/" >&2)\n')
    hurried.chmod(0o755)
    return f'{folder}:{os.environ["PATH"]}'
