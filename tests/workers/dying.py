"""A hub process that dies in the middle: `python -m tests.workers.dying FILE` advances one branch, as a ring would.

The file says where the hub is, and before or after which call of which function the process kills itself, so hard that
nothing of Python runs any more. The function itself runs as it is. Without such a step it stands until it is killed
from outside.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger import publication
from ledger.bounds import Bounds
from tests.workers.scene import PushedClock, Scene, place_at
from workers import publish
from workers.forge import AppKey
from workers.place import name_gone

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Step:
    """Where the process dies: at the `nth` call of a function, `before` it or `after` it."""

    module: str
    function: str
    when: str = "after"
    nth: int = 1


def begun(scene: Scene, step: Step | None = None) -> "subprocess.Popen[bytes]":
    """A process of its own that advances the scene's branch. The caller waits for it."""
    given = {
        "folder": str(scene.folder),
        "github": scene.github.url,
        "app": scene.hub.id,
        "key": scene.hub.private_key,
        "ahead_ms": scene.clock.ahead_ms,
        "branch": scene.branch,
        "step": None if step is None else asdict(step),
    }
    file = scene.folder / "dying.json"
    file.write_text(json.dumps(given))
    return subprocess.Popen(
        [sys.executable, "-m", "tests.workers.dying", str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
    )


def killed_at(scene: Scene, step: Step) -> None:
    """Advance the branch in a process that dies at this step. That it did die there is asserted."""
    assert begun(scene, step).wait(60) == -signal.SIGKILL, f"it ended before {step}"


def restarted(scene: Scene) -> list[str]:
    """What a new process does first, and then its looks; what was decided."""
    publication.free_abandoned(scene.ledger, name_gone)
    return scene.advance()


def _arm(step: Step) -> None:
    owner = importlib.import_module(step.module)
    real = getattr(owner, step.function)
    calls = 0

    def dying(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step.nth and step.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*args, **named)
        if calls == step.nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, step.function, dying)


def main(argv: list[str]) -> int:
    """0: the advance came to its end, so the process did not die where it was to."""
    given = json.loads(Path(argv[0]).read_text())
    if given["step"] is not None:
        _arm(Step(**given["step"]))
    key = AppKey(given["github"], given["app"], given["key"], timeout_ms=5_000)
    place = place_at(Path(given["folder"]), key, PushedClock(given["ahead_ms"]), Bounds())
    publish.advance_branch(place, given["branch"])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
