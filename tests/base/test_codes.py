"""The codes of a checkout: their folders, each with a code.yaml."""

from __future__ import annotations

from parity.base import codes, yamlfile


def test_a_code_is_read_once_whoever_asks_for_it(monkeypatch):
    codes._read.cache_clear()
    codes._below.cache_clear()
    codes._every.cache_clear()
    read = []
    monkeypatch.setattr(yamlfile, 'read', lambda path, model, read_file=yamlfile.read: read.append(path) or read_file(path, model))
    every = codes.every()
    assert [codes.stated_beside(str(code.file)).name for code in every] == [code.name for code in every]
    assert len(read) == len(every)
