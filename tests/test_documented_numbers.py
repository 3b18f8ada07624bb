"""benchmarks/documented_numbers.py: its commands and texts are in the pages, and it finds the numbers that differ."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load_script():
    spec = importlib.util.spec_from_file_location("documented_numbers", ROOT / "benchmarks/documented_numbers.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


script = load_script()
each_entry = pytest.mark.parametrize("entry", script.ENTRIES, ids=lambda entry: entry["commands"][0])


@each_entry
def test_every_command_is_in_a_page(entry):
    pages = "\n".join((ROOT / place["page"]).read_text() for place in entry["numbers"])
    words = " ".join(pages.replace("\\\n", " ").split())
    assert [command for command in entry["commands"] if command not in words] == []


@each_entry
def test_every_number_is_in_its_page(entry):
    numbers = script.compare(entry, printed="")
    assert numbers and [str(number) for number in numbers if not number.documented] == []


def test_every_row_of_the_encodings_that_are_trained_is_compared():
    rows = re.findall(r'^    "(.+?)": \{"name"', (ROOT / "benchmarks/train_every_encoding.py").read_text(), flags=re.M)
    (entry,) = (entry for entry in script.ENTRIES if "train_every_encoding" in entry["commands"][0])
    assert rows and sorted(row for place in entry["numbers"] for row in place["rows"]) == sorted(rows)


@pytest.mark.parametrize(
    "documented, printed, tolerance, agrees",
    [
        ("0.497", "0.4974", 0.0, True),  # rounded
        ("0.497", "0.4976", 0.0, False),
        ("0.497", "0.501", 0.01, True),
        ("0.497", "0.503", 0.01, False),
        ("12,808", "12808", 0.0, True),
        ("12,808", "12,809", 0.5, False),  # a count
        ("0.21 %", "0.00214", 0.0, True),
        ("0.21 %", "0.0022", 0.0, False),
        ("4.977e-05", "0.00004977", 0.0, True),
        ("0.497", "", 0.5, False),  # not found
    ],
)
def test_numbers_agree_within_the_rounding_of_the_page_and_the_tolerance(documented, printed, tolerance, agrees):
    assert script.Number("page", "name", documented, printed, tolerance).agrees == agrees


def test_texts_and_cells_are_found_across_lines_and_in_other_columns():
    assert script.numbers_in("loss #, of ~ clips … lr #", "loss 0.5,\n of 12 clips\n\n| lr 1e-3") == ["0.5", "1e-3"]
    assert script.numbers_in("loss #, lr #", "nothing") == ["", ""]
    table = "| | b | c |\n|---|---|---|\n| one | 1 | 2 |\n\n| | c | a |\n|---|---|---|\n| `one` | 3 | **4** (5 %) |\n"
    assert script.cells(table, "one", ["a", "c"]) == ["4", "3"]
    assert script.cells(table, "two", ["a", "c"]) == ["", ""]


def test_progress_bars_between_the_rows_of_a_printed_table_do_not_end_it(monkeypatch, tmp_path):
    (tmp_path / "page.md").write_text("| | a |\n|---|---|\n| one | 3 |\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    entry = {"tolerance": 0, "numbers": [{"page": "page.md", "columns": {"a": "a"}, "rows": {"one": None}}]}
    (number,) = script.compare(entry, "| | a |\n|---|---|\nscenes ━━━━ 100% 0:00:06\n| one | 3 |\n")
    assert number.agrees


def test_a_number_of_a_finished_progress_bar_is_found(monkeypatch, tmp_path):
    (tmp_path / "page.md").write_text("training ━━━━ 40/40 0:00:12 0:00:00 loss 0.98\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    entry = {"tolerance": 0, "numbers": [{"page": "page.md", "text": "40/40 ~ ~ loss #"}]}
    (number,) = script.compare(
        entry, "step 40: loss 1.02\ntraining ━━━━ 40/40 0:01:28 0:00:00 loss 0.9814  5 clips/s\n"
    )
    assert number.agrees and number.printed == "0.9814"


@pytest.mark.parametrize("printed, code", [("0.25", 0), ("0.26", 1)])
def test_the_exit_code_says_whether_a_number_differs(monkeypatch, tmp_path, capsys, printed, code):
    (tmp_path / "page.md").write_text("The loss is 0.25.")
    entry = {
        "commands": [f"python -c \"print('loss', {printed})\""],
        "minutes": 0,
        "compared": "exactly",
        "tolerance": 0,
    }
    entry["numbers"] = [{"page": "page.md", "text": "The loss is #.", "printed": "loss #"}]
    monkeypatch.setattr(script, "ENTRIES", [entry])
    monkeypatch.setattr(script, "ROOT", tmp_path)
    with pytest.raises(SystemExit) as ended:
        script.main(output=tmp_path / "out")
    assert ended.value.code == code
    assert f"| 0.25 | {printed} | {'differs' if code else ''} |" in capsys.readouterr().out
