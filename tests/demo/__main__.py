"""`python -m tests.demo`: builds the demo's world, plays its scenes, and ends with a table; exit code 1 if anything
went differently than it must. `python -m tests.demo up` leaves the world running until it is interrupted.
"""

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.demo import hard_scenes, scenes, source, world
from tests.demo.programs import DemoFailed, Programs

ROOT = Path(__file__).resolve().parent.parent.parent
BEGUN = time.monotonic()
SCENES = (
    scenes.lands,
    hard_scenes.sent_back,
    hard_scenes.check_fails,
    hard_scenes.merged_by_hand,
    hard_scenes.worker_killed,
    hard_scenes.reported,
    hard_scenes.brought_up_to_date,
)


def say(sentence: str) -> None:
    """One line of progress, with the seconds since the start."""
    print(f"  {time.monotonic() - BEGUN:6.1f} s  {sentence}", flush=True)


def main(argv: list[str]) -> int:
    """0: everything went as it must."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="mac-demo-"))
    programs = Programs(folder, ROOT)
    kept = True
    try:
        print("mac hub demo: changes land in a GitHub on localhost, and the hub proves it", flush=True)
        rows = _play(programs, stay=argv == ["up"])
        kept = False
    except DemoFailed as failed:
        print(f"\nthe demo went differently: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kept = False
        return 0
    finally:
        programs.end()
        if kept:
            print(f"everything is kept in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    _table(rows)
    return 0


def _play(programs: Programs, *, stay: bool) -> list[scenes.Row]:
    made = source.make(ROOT, programs.folder)
    if made.stand_in is not None:
        say(f"{made.stand_in}, so the demo works in a made-up history")
    say(f"the repository acme/hub has {made.commits} commits")
    there = world.build(programs, made)
    say(f"a GitHub at {there.github}, a CI service, and the hub at {there.hub} are up")
    for name in ("hub", "plain"):
        project = there.mac("project", "add", f"acme/{name}", "--wait")
        say(f"registered acme/{name}: {project['state']}, lands by {project['method']}")
    rows = []
    for number, scene in enumerate(SCENES, 1):
        print(f"\n{number}. {(scene.__doc__ or '').splitlines()[0]}", flush=True)
        rows.append(scene(there, say))
    if stay:
        _stay(there)
    return rows


def _stay(there: world.World) -> None:
    print(
        f"\nIt stays up until you press Ctrl-C. In another terminal:\n"
        f"  export MAC_HUB_URL={there.hub} MAC_TOKEN={there.admin}\n"
        f"  .venv/bin/mac task list",
        flush=True,
    )
    while True:
        there.programs.check()
        time.sleep(1)


def _table(rows: list[scenes.Row]) -> None:
    heads = ("scene", "state", "method", "tip guard", "GitHub calls", "green → landed", "green → proven")
    lines = [(f"{n} {r.scene}", r.state, r.method, r.tip_guard, r.calls, r.landed, r.proven) for n, r in enumerate(rows, 1)]
    widths = [max(len(line[i]) for line in (heads, *lines)) for i in range(len(heads))]
    print()
    for line in (heads, tuple("-" * w for w in widths), *lines):
        print("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
