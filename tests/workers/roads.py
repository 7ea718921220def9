"""The roads by which a change lands, each as a scene that stands just before its landing."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger import history, proofs
from pipeline.errors import Rejected
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import Scene

MARKERS = "refs/mac/landings/"


@dataclass
class Ready:
    """A change that lands at the next advance. `tip`: where the branch stands; `head`: the tested head."""

    scene: Scene
    task: str
    tip: str
    head: str

    def landed(self) -> list[str]:
        """The commits that came onto the branch since, as its first parents tell."""
        return self.scene.repo.git.run("rev-list", "--first-parent", f"{self.tip}..main").split()

    def count(self, event: str) -> int:
        """How often something stands in the task's timeline."""
        with self.scene.ledger.read() as tx:
            return [entry.event for entry in history.timeline(tx, self.task)].count(event)

    def proof(self) -> dict[str, Any] | None:
        """What the task's proof says; None without one."""
        with self.scene.ledger.read() as tx:
            try:
                envelope = json.loads(proofs.proof_of(tx, self.task).envelope)
            except Rejected:
                return None
        found: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))["predicate"]
        return found

    def markers(self) -> set[str]:
        """The intents that have a marker on the remote."""
        return {name.removeprefix(MARKERS) for name in self.scene.repo.refs(MARKERS)}


def checked(github: Sandbox, folder: Path) -> Ready:
    """Required checks, pushes admitted: the tested head itself is pushed."""
    scene = Scene.set_up(github, folder)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    return _green(scene)


def plain(github: Sandbox, folder: Path) -> Ready:
    """No rules: a merge commit that the hub builds is pushed. The gate is run by the same advance that lands."""
    scene = Scene.set_up(github, folder, method="merge")
    scene.register()
    task, tip = scene.task(), scene.repo.tip()
    return Ready(scene, task, tip, scene.hands_in(scene.lease(), {"a.txt": "b\n"}))


def merged(github: Sandbox, folder: Path) -> Ready:
    """Pull requests required, checks strict: GitHub makes the merge."""
    scene = Scene.set_up(github, folder)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True, pull_request=True)
    return _green(scene)


def _green(scene: Scene) -> Ready:
    scene.register()
    task, tip = scene.task(), scene.repo.tip()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})
    assert scene.advance()[-1] == "wait:checks_pending"
    scene.ci.reports(scene.repo, head, "ci/test", "success")
    scene.wake(head=head)
    return Ready(scene, task, tip, head)


Road = Callable[[Sandbox, Path], Ready]
PUSHED: dict[str, Road] = {"checked": checked, "plain": plain}
ALL: dict[str, Road] = {**PUSHED, "merged": merged}
