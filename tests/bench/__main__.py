"""`python -m tests.bench [--quick] [--json FILE]`: measures, prints the figures, and ends with 1 when a bound is broken."""

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from tests.bench.landing import CALLS_MAX, RATIO_MAX, Result, measure
from tests.demo.programs import DemoFailed

ROOT = Path(__file__).resolve().parent.parent.parent


def main(argv: list[str]) -> int:
    """0: every figure is within its bound."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small repository and few rounds: shows that it works")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args(argv)
    files, commits, rounds = (500, 50, 3) if given.quick else (20_000, 2_000, 10)
    folder = Path(tempfile.mkdtemp(prefix="mac-bench-"))
    try:
        print(f"landing on a repository of {files} files and {commits} commits, {rounds} rounds in turn", flush=True)
        result = measure(folder, ROOT, files=files, commits=commits, rounds=rounds)
    except DemoFailed as failed:
        print(f"the bench could not run: {failed}; everything is kept in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    _print(result)
    if given.json is not None:
        given.json.write_text(json.dumps(asdict(result), indent=2))
    return 0 if result.good else 1


def _print(result: Result) -> None:
    rows = [
        (
            "green → branch moved",
            [h.moved_ms for h in result.hub],
            [f.moved_ms for f in result.floor],
            result.moved_ratio,
        ),
        (
            "green → proof written",
            [h.proven_ms for h in result.hub],
            [f.read_back_ms for f in result.floor],
            result.proven_ratio,
        ),
    ]
    print(f"{'':24}{'hub, median (min–max)':>26}{'git alone':>22}{'ratio':>8}   bound")
    for name, ours, floor, ratio in rows:
        print(f"{name:24}{_spread(ours):>26}{_spread(floor):>22}{ratio:>7.2f}x   {RATIO_MAX:.1f}x")
    print(f"{'GitHub calls':24}{result.calls:>26}{'':>22}{'':>8}   {CALLS_MAX}")


def _spread(values: list[int] | list[float]) -> str:
    return f"{median(values):.0f} ms ({min(values):.0f}–{max(values):.0f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
