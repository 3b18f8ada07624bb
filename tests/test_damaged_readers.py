"""Damaged files for every reader: each is read, or refused in one sentence. benchmarks/fuzz_readers.py runs many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damage import damaged_copies, sentence
from tests.reader_samples import READERS

COUNT = 40


# The formats of trajectories have 2,000 damaged files each in tests/cameras/formats/test_damaged_files.py.
@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith("trajectory")])
def test_damaged_files_are_one_sentence(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    sentences = [sentence(reader, copy) for copy in damaged_copies(reader, tmp_path, COUNT, name)]
    assert len(set(filter(None, sentences))) > COUNT / 10  # the damage is real, and of many kinds
