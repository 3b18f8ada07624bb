"""Damaged files for every reader of the package: only SightlineErrors may come out, quickly and in little memory.

    python benchmarks/fuzz_readers.py --count 700 --seed 0

--count damaged inputs are made for each reader of tests/reader_samples.py. An input fails if another exception comes out, if it
takes more than 20 seconds, or if the process would need more than 4 GB; failed inputs are kept in --keep.
"""

from __future__ import annotations

import argparse
import logging
import resource
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.damage import damaged_copies, sentence
from tests.reader_samples import READERS, Reader

SECONDS, MEMORY = 20, 4 * 10**9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=700, help="damaged inputs of each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="*", default=list(READERS), choices=list(READERS), metavar="NAME")
    parser.add_argument("--keep", type=Path, default=Path("outputs/fuzz"), help="folder for inputs that failed")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable()
    print(
        "| reader | inputs | refused | read | other exceptions | seconds, longest |\n|---|---|---|---|---|---|",
        flush=True,
    )
    failed, total = 0, 0
    for name in options.readers:
        failed += fuzz(name, READERS[name], options.count, options.seed, options.keep)
        total += options.count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\n{total} inputs, {failed} other exceptions or hangs, at most {peak:.2f} GiB of memory.")
    sys.exit(failed > 0)


def fuzz(name: str, reader: Reader, count: int, seed: int, keep: Path) -> int:
    """Print the row of one reader; returns how many inputs failed."""
    refused, failed, longest = 0, 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number, copy in enumerate(damaged_copies(reader, Path(folder), count, f"{name} {seed}")):
            started = time.monotonic()
            try:
                refused += sentence(reader, copy, SECONDS) is not None
            except Exception:
                failed += 1
                place = keep / f"{name} {seed} {number}"
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(copy, place, symlinks=True, copy_function=_copy_regular)
                print(f"{place}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            longest = max(longest, time.monotonic() - started)
    print(f"| {name} | {count} | {refused} | {count - refused - failed} | {failed} | {longest:.2f} |", flush=True)
    return failed


def _copy_regular(source: str, target: str) -> None:
    if Path(source).is_file():  # a pipe would block
        shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
