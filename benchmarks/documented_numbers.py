"""Do the documented commands still print the numbers that stand beside them? All that need neither a GPU nor the network.

    python benchmarks/documented_numbers.py --list                # the commands, their pages and their minutes
    python benchmarks/documented_numbers.py --only "train debug"  # those that contain this text
    python benchmarks/documented_numbers.py                       # all of them: hours

benchmarks/documented_numbers.yaml lists them. Each entry runs in an empty folder below `--output`, on one thread and without
a GPU. At the end stands a table of every number as its page has it and as it was printed. The exit code is 1 if a number
differs or is missing, or if a command fails. tests/test_documented_numbers.py checks that the pages still contain the
commands and texts of all entries.

Left out: speed and memory, which differ from machine to machine; what was measured on a GPU; the pictures of docs/images.py;
and records of what no command makes any more.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import tyro
import yaml

ROOT = Path(__file__).resolve().parents[1]
ENTRIES: list[dict[str, Any]] = yaml.safe_load((ROOT / "benchmarks/documented_numbers.yaml").read_text())
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", "PYTHONPATH": str(ROOT / "src")}

NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?%)?"
WILDCARDS = {"#": f"({NUMBER})", "~": r"\S+", "…": ".*?"}


@dataclass(frozen=True)
class Number:
    """A number as a page and as a command has it; "" where it was not found."""

    page: str
    name: str
    documented: str
    printed: str
    tolerance: float  # relative, in addition to the rounding of the page

    @property
    def agrees(self) -> bool:
        if not (self.documented and self.printed):
            return False
        documented, printed = value(self.documented), value(self.printed)
        if re.fullmatch(r"[\d,]+", self.documented):  # a count
            return documented == printed
        rounding = 0.5000001 * last_digit(self.documented)
        return abs(printed - documented) <= rounding + self.tolerance * abs(documented)

    def __str__(self) -> str:
        found = (text or "not found" for text in (self.documented, self.printed))
        return f"| {self.page} | {self.name} | {' | '.join(found)} | {'' if self.agrees else 'differs'} |"


def value(text: str) -> float:
    """12,808 and 0.61 % as numbers."""
    return float(re.sub(r"[,%\s]", "", text)) / (100 if "%" in text else 1)


def last_digit(text: str) -> float:
    """One unit of the last digit of a number: 0.01 for 3.14."""
    mantissa, _, exponent = re.sub(r"[,%\s]", "", text).partition("e")
    return math.pow(10, int(exponent or 0) - len(mantissa.partition(".")[2])) / (100 if "%" in text else 1)


def numbers_in(pattern: str, text: str) -> list[str]:
    """What stands at each # of a pattern, in which ~ is any word and … anything; "" if the pattern is not in the text."""
    parts = re.split(r"([#~…]|\s+)", pattern.strip())
    wanted = "".join(WILDCARDS.get(part) or (r"\s+" if part.isspace() else re.escape(part)) for part in parts)
    found = re.search(wanted, text, flags=re.DOTALL)
    return list(found.groups()) if found else [""] * pattern.count("#")


def cells(text: str, row: str, columns: list[str]) -> list[str]:
    """The first number in each of these columns of a row, in the first markdown table that has them all; "" without one."""
    header: list[str] = []
    for line in text.splitlines():
        fields = [cell.strip() for cell in line.strip().split("|")[1:-1]]
        if not (fields and header):
            header = fields
        elif set(columns) <= set(header) and fields[0].replace("`", "") == row:
            found = (re.search(NUMBER, fields[header.index(column)]) for column in columns)
            return [match[0] if match else "" for match in found]
    return [""] * len(columns)


def compare(entry: dict[str, Any], printed: str) -> list[Number]:
    """Every number of an entry, in its pages and in what its commands printed."""
    # Progress bars, also between the rows. The last state of one may be what a page shows.
    without_bars = "\n".join(line for line in printed.splitlines() if "━" not in line)
    numbers = []
    for place in entry["numbers"]:
        page = (ROOT / place["page"]).read_text()
        if "text" in place:
            text = place["text"]
            label = " ".join(text.replace("|", " ").split())[:50]
            names = [f"{label}: {n}" for n in range(1, text.count("#") + 1)]
            pattern = place.get("printed", text)
            shown = numbers_in(pattern, without_bars)
            found = [(names, numbers_in(text, page), shown if any(shown) else numbers_in(pattern, printed))]
        else:
            columns, rows = place["columns"], place["rows"]
            found = [
                (
                    [f"{row}: {column}" for column in columns],
                    cells(page, row, list(columns)),
                    cells(without_bars, rows[row] or row, list(columns.values())),
                )
                for row in rows
            ]
        for triple in found:
            numbers += [Number(place["page"], *texts, entry["tolerance"]) for texts in zip(*triple, strict=True)]
    return numbers


def run(command: str, log: Path) -> int:
    """The exit code of a documented command, run by this Python in the folder of the log, to which its output is added."""
    first, *rest = shlex.split(command)
    program = [sys.executable] if first == "python" else [sys.executable, "-m", first]
    rest = [str(ROOT / word) if word.startswith(("benchmarks/", "tests/")) else word for word in rest]
    with log.open("a") as file:
        return subprocess.run(
            [*program, *rest], cwd=log.parent, env=os.environ | ENVIRONMENT, stdout=file, stderr=subprocess.STDOUT
        ).returncode


def measure(entry: dict[str, Any], folder: Path) -> list[Number]:
    """The numbers of an entry, after the exit codes of commands that failed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    log, started = folder / "log.txt", time.perf_counter()
    codes = {command: run(command, log) for command in entry["commands"]}
    print(f"    {(time.perf_counter() - started) / 60:.1f} minutes; printed to {log}", flush=True)
    failed = [Number("", f"exit code of {command}", "0", str(code), 0.0) for command, code in codes.items() if code]
    return failed + compare(entry, log.read_text())


def main(
    only: str = "",
    list_only: Annotated[bool, tyro.conf.arg(name="list")] = False,
    output: Path = Path("outputs/documented-numbers"),
) -> None:
    """only: a part of the commands to run. list: run nothing. output: folder for what the commands write."""
    numbers: list[Number] = []
    skipped = []
    for index, entry in enumerate(ENTRIES):
        commands = entry["commands"]
        if only not in "\n".join(commands):
            continue
        pages = ", ".join(dict.fromkeys(place["page"] for place in entry["numbers"]))
        print(*commands, f"    {pages}; about {entry['minutes']:g} minutes; {entry['compared']}", sep="\n", flush=True)
        missing = [name for name in entry.get("requires", ()) if find_spec(name) is None]
        if list_only:
            continue
        if missing:
            skipped.append(f"not run, because {', '.join(missing)} is not installed: {commands[0]}")
        else:
            numbers += measure(entry, output.resolve() / f"{index:02d}")
    if list_only:
        return
    print("\n| page | number | documented | printed | |\n|---|---|---|---|---|", *numbers, "", *skipped, sep="\n")
    wrong = sum(not number.agrees for number in numbers)
    print(f"{len(numbers)} numbers compared, {wrong} differ")
    raise SystemExit(1 if wrong or not numbers else 0)


if __name__ == "__main__":
    tyro.cli(main)
