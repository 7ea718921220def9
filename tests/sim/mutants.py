"""`python -m tests.sim.mutants [NAME …]`: the simulation must bite. Seeded mistakes in a copy of the code, each caught.

A mutant is a replacement of text. One whose text is not there any more is an error, not a pass.
"""

import argparse
import concurrent.futures as cf
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
COPIED: Final = ("pipeline", "ledger", "workers", "tests/sim", "tests/ledger")
SEED: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: what it is, and the changes (file, text, replacement) that make it."""

    name: str
    changes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of a mutant: the breach that showed it (None: it lived), after how many seconds."""

    name: str
    breach: str | None
    took_s: float


def _one(name: str, path: str, old: str, new: str) -> Mutant:
    return Mutant(name, ((path, old, new),))


MUTANTS: Final = (
    _one(
        "a lease is good after its time",
        "ledger/leases.py",
        "leases.c.released_at.is_(None) & (leases.c.expires_at + grace_ms > now)",
        "leases.c.released_at.is_(None)",
    ),
    _one(
        "a token that does not grow",
        "ledger/leases.py",
        "now, token, number = tx.now(), task.fence + 1,",
        "now, token, number = tx.now(), max(1, task.fence),",
    ),
    _one(
        "an attempt that is not charged",
        "ledger/leases.py",
        '"attempts": number, "fence"',
        '"attempts": task.attempts, "fence"',
    ),
    _one("evidence that does not end its lease", "ledger/evidence.py", 'leases.end(tx, mine, ending="submitted")', "pass"),
    _one(
        "an expired lease whose task stays away",
        "ledger/reclaim.py",
        "    _return(tx, row.task_id)\n    return 1",
        "    return 1",
    ),
    _one(
        "a send-back more than allowed",
        "pipeline/rows_to_land.py",
        "s.task.sent_back >= s.limits.send_backs_max",
        "s.task.sent_back > s.limits.send_backs_max",
    ),
    _one(
        "an intent in spite of a stop",
        "ledger/intents.py",
        '(task.stop_requested_at is not None, "a stop was requested"),',
        "",
    ),
    _one("an intent in spite of a hold", "ledger/intents.py", '(task.held, "the task is held"),', ""),
    _one(
        "an intent in spite of a pause",
        "ledger/intents.py",
        '(bool(tx.connection.execute(paused).scalar_one()), "the project is paused"),',
        "",
    ),
    _one("an intent without the slot", "ledger/intents.py", "require_slot(tx, slot)", "pass"),
    _one(
        "a slot whose token does not grow",
        "ledger/slot.py",
        "token, expires_at = row.token + 1,",
        "token, expires_at = row.token,",
    ),
    _one(
        "nothing left to do, before the landing is confirmed",
        "pipeline/decide.py",
        "    before.open_intent,\n    before.proven,\n    before.over,\n    before.unprovable,\n    before.spent,\n    after.unreadable,",
        "    before.over,\n    before.open_intent,\n    before.proven,\n    before.unprovable,\n    before.spent,\n    after.unreadable,",
    ),
    _one(
        "void without a marker",
        "workers/confirm.py",
        "pushes.void_marker(work.mirror, intent.id, void)",
        'intents.void(work.place.ledger, intent.id, "not_landed")\n                return',
    ),
    _one(
        "a landing without a marker",
        "workers/land.py",
        "            RefUpdate(marker_ref(landing.intent), landing.marker, None),\n        ],",
        "        ],",
    ),
    _one(
        "a landing from wherever the branch is",
        "workers/land.py",
        "RefUpdate(canonical, landing.commit, landing.expected_tip)",
        "RefUpdate(canonical, landing.commit, mirror.ls_remote([canonical]).get(canonical))",
    ),
    _one(
        "a head pushed over whatever is there",
        "workers/land.py",
        "return push(mirror, [RefUpdate(ref, sha, expected)])",
        "return push(mirror, [RefUpdate(ref, sha, mirror.ls_remote([ref]).get(ref))])",
    ),
    _one(
        "a landing that is ours because it is there",
        "pipeline/settle.py",
        "    if seen.marker is MarkerState.OURS:",
        "    if seen.marker is MarkerState.ABSENT and seen.reachable:\n        return LandedByUs(seen.tip)\n    if seen.marker is MarkerState.OURS:",
    ),
    _one(
        "parents in the wrong order",
        "workers/land.py",
        "parents = (plan.expected_tip, plan.tested) if",
        "parents = (plan.tested, plan.expected_tip) if",
    ),
    _one(
        "any head belongs to the evidence",
        "workers/observe.py",
        "ours = head.value is not None and belongs(mirror, sight.evidence.head, sight.updates, head.value)",
        "ours = head.value is not None",
    ),
    Mutant(
        "a page of checks is enough",
        (
            ("workers/rest.py", "            if following is None:\n                return", "            return"),
            ("workers/forge.py", "if len(found) < promised:", "if False:"),
        ),
    ),
    _one("the oldest run of a check counts", "pipeline/checks.py", "found[key].id < check.id", "found[key].id > check.id"),
    Mutant(
        "a verifier run on another tip",
        (
            (
                "pipeline/landing.py",
                "evidence.verifier_green and tip == evidence.verified_base and change",
                "evidence.verifier_green and change",
            ),
            ("pipeline/landing.py", "if not (change.contains_tip and change", "if not (change"),
            ("pipeline/rows_to_land.py", "if change.tip != s.evidence.verified_base:", "if change.tip is None:"),
        ),
    ),
    Mutant(
        "removed commits come back",
        (
            ("pipeline/rows_to_land.py", "if not change.builds_on_tip:", "if False:"),
            ("pipeline/landing.py", "and change.builds_on_tip):", "):"),
        ),
    ),
    _one(
        "a block that never ends",
        "ledger/record.py",
        '    _unblock(tx, row, task)\n    return {"state": "active"',
        '    return {"state": "active"',
    ),
    _one(
        "a wait that begins anew at each look",
        "ledger/record.py",
        "since = row.since if same else tx.now()",
        "since = tx.now()",
    ),
    _one(
        "a crash after the push is forgotten",
        "pipeline/rows_before_review.py",
        "if head is None or unsaid or earlier:",
        "if head is None:",
    ),
    _one(
        "cancelled with an open intent",
        "ledger/orders.py",
        "    _no_intent(tx, task_id)\n    tasks.move(tx, task_id, Event.CANCEL",
        "    tasks.move(tx, task_id, Event.CANCEL",
    ),
    _one(
        "a fact that arrives during a look is lost",
        "ledger/record.py",
        "case((seen == look.generation, next_look_at), else_=tx.now())",
        "next_look_at",
    ),
    _one("a red gate is green", "pipeline/checks.py", '"failure": Standing.FAIL', '"failure": Standing.PASS'),
    _one(
        "a proof is the first of its chain again",
        "workers/moving.py",
        "sequence=1 if chain is None else chain.sequence + 1",
        "sequence=1",
    ),
)


def hunt(mutant: Mutant, limit_s: float) -> Caught:
    """Play schedules against a copy with the mistake, until a law breaks or the time is spent."""
    with tempfile.TemporaryDirectory(prefix="mac-mutant-") as folder:
        copy = Path(folder)
        _copy(copy)
        for path, old, new in mutant.changes:
            _change(copy / path, old, new)
        begun = time.monotonic()
        argv = [sys.executable, "-m", "tests.sim", "--until-first", str(limit_s), "--seed", str(SEED)]
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            argv, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit_s + 60, check=False
        )
        took = time.monotonic() - begun
    lines = done.stdout.strip().splitlines()
    if done.returncode == 1 and lines:
        return Caught(mutant.name, lines[-1], took)
    if done.returncode == 0:
        return Caught(mutant.name, None, took)
    return (
        Caught(mutant.name, None, took)
        if not done.stderr
        else Caught(mutant.name, f"it does not run: {done.stderr[-200:]}", took)
    )


def _copy(copy: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "tests/__init__.py", copy / "tests/__init__.py")


def _change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise SystemExit(f"the text of this mistake is not in {path.name} any more: {old[:80]}")
    path.write_text(text.replace(old, new))


def main(argv: list[str] | None = None) -> int:
    """0 when every mutant was caught."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="part of a name; all of them, if none is given")
    parser.add_argument("--limit", type=float, default=120, help="seconds for each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(argv)
    chosen = [m for m in MUTANTS if not asked.names or any(word in m.name for word in asked.names)]
    lived = 0
    with cf.ThreadPoolExecutor(asked.processes) as pool:
        for found in pool.map(lambda mutant: hunt(mutant, asked.limit), chosen):
            lived += found.breach is None
            print(f"{found.took_s:6.1f} s  {found.name}: {(found.breach or 'LIVED')[:150]}", flush=True)
    print(f"{len(chosen) - lived} of {len(chosen)} were caught")
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
