"""What is read once instead of at every case, and again where it changes."""

from __future__ import annotations

from types import SimpleNamespace

import yaml
from reframe.core import pipeline

from parity.rfm import patches


def test_accepted_values_are_read_once_and_again_when_they_change(tmp_path, monkeypatch):
    reads = []
    monkeypatch.setattr(pipeline, 'yaml', SimpleNamespace(safe_load=lambda file: reads.append(file.name) or yaml.safe_load(file)))
    patches.read_references_once()
    file = tmp_path / 'cpu.yaml'

    def loaded():
        with file.open() as stream:
            return pipeline.yaml.safe_load(stream)
    file.write_text('Hpl: 1\n')
    assert loaded() == loaded() == {'Hpl': 1} and len(reads) == 1
    file.write_text('Hpl: 22\n')
    assert loaded() == {'Hpl': 22} and len(reads) == 2
