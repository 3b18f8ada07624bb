"""The README's Python runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_ten_lines_run(tmp_path, monkeypatch):
    block = re.findall(r"```python\n(.*?)```", README, flags=re.S)[0]
    assert len(block.strip().splitlines()) <= 10
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert {path.name for path in (tmp_path / "outputs").iterdir()} == {"orbit.mp4", "orbit.png"}
