"""`python -m tests.sim [--minutes N] [--schedules N] [--seed S]`: schedules until the time or the number is spent."""

import argparse
import concurrent.futures as cf
import multiprocessing
import os
import secrets
import sys
import time
from collections import Counter

from tests.sim.batches import BATCH, batch, explain
from tests.sim.schedule import Outcome, Schedule, play
from tests.sim.world import Laboratory, quiet


def main(argv: list[str] | None = None) -> int:
    """0 when no law was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, unless --schedules is given")
    parser.add_argument("--schedules", type=int, help="how many, instead of how long")
    parser.add_argument("--seed", type=int, help="the first seed; by chance, and printed, if not given")
    parser.add_argument("--until-first", type=float, metavar="SECONDS", help="in this process, to the first breach")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(argv)
    quiet()
    first = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    if asked.schedules == 1:
        outcome = play_one(first)
        return 1 if outcome.broken else 0
    if asked.until_first is not None:
        return _until_first(first, asked.until_first)
    return _many(first, asked.minutes, asked.schedules, asked.processes)


def play_one(seed: int) -> Outcome:
    """One seed, with everything that happened."""
    laboratory = Laboratory()
    try:
        outcome = play(laboratory, Schedule.drawn(seed), trace=True)
    finally:
        laboratory.close()
    print("\n".join(outcome.told))
    print(f"seed {seed}: {outcome.ends}, landed {outcome.landed}, broken {outcome.broken}")
    return outcome


def _until_first(seed: int, limit_s: float) -> int:
    laboratory, begun, first = Laboratory(), time.monotonic(), seed
    try:
        while time.monotonic() - begun < limit_s:
            outcome = play(laboratory, Schedule.drawn(seed))
            if outcome.broken:
                law, sentence = outcome.broken[0]
                print(f"law {law}, schedule {seed - first + 1}: {sentence}")
                return 1
            seed += 1
    finally:
        laboratory.close()
    return 0


def _many(first: int, minutes: float, schedules: int | None, processes: int) -> int:
    print(f"seeds from {first} on", flush=True)
    begun, landed, seams, played, ends = time.monotonic(), 0, 0, 0, Counter[str]()
    failed: list[Outcome] = []
    with cf.ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        seed = first
        running: set[cf.Future[tuple[int, Counter[str], int, list[Outcome]]]] = set()
        while True:
            spent = (time.monotonic() - begun) / 60 >= minutes if schedules is None else seed - first >= schedules
            while not spent and not failed and len(running) < processes:
                size = BATCH if schedules is None else min(BATCH, schedules - (seed - first))
                running.add(pool.submit(batch, seed, size))
                seed += size
                spent = schedules is not None and seed - first >= schedules
            if not running:
                break
            done, running = cf.wait(running, return_when=cf.FIRST_COMPLETED)
            for one in done:
                more, how, passed, bad = one.result()
                landed, seams, played, failed = landed + more, seams + passed, played + BATCH, failed + bad
                ends.update(how)
    took = time.monotonic() - begun
    print(f"{played} schedules in {took:.0f} s, {seams} seams, {landed} landings, tasks {dict(ends)}")
    if failed:
        print(f"{len(failed)} failed: {[o.schedule.seed for o in failed]}\n\n{explain(failed[0])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
