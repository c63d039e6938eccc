"""A JSON output is read whatever its blanks and line breaks."""

from __future__ import annotations

import json

import pytest

import rooms
from parity.base import codes

OUTPUTS = [(name, output) for name in ('fio', 'iperf3') for output in rooms.good(codes.named(name))]
FORMS = {'one line': {'separators': (',', ':')}, 'wide': {'indent': 12}}


@pytest.mark.parametrize('form', FORMS.values(), ids=FORMS)
@pytest.mark.parametrize('name, output', OUTPUTS, ids=[f'{name}/{output}' for name, output in OUTPUTS])
def test_a_json_output_is_one_in_any_form(name, output, form):
    code = codes.named(name)
    text = rooms.texts(code)[output].replace('\r\n', '\n')
    read = rooms.reader(code, output)
    begin = text.find('{')
    try:
        values, end = json.JSONDecoder().raw_decode(text[begin:])
    except ValueError:
        pytest.skip('a launcher put labels before its lines')
    again = text[:begin] + json.dumps(values, **form) + text[begin + end:]
    assert read(again) == read(text)
