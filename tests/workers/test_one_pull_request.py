"""One task has one pull request, however many processes ask for it at the same moment."""

import multiprocessing
import os
import random
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

from ledger.bounds import Bounds
from ledger.session import Ledger
from pipeline.signing import SigningKey
from tests.sandbox.sandbox import Sandbox
from tests.workers.scene import PERMISSIONS, Scene
from workers import publish
from workers.clone import Mirrors
from workers.forge import AppKey, Forge
from workers.git import Git
from workers.place import Place, this_process

ASKERS = 6


def _another_hub(folder: Path, ledger_url: str, key: AppKey, number: int) -> Place:
    """A hub of its own on the same ledger: its own process, mirrors and clock."""
    git = Git.prepared(folder / f"git-{number}", os.environ, timeout_ms=20_000)
    return Place(
        ledger=Ledger.open(ledger_url),
        mirrors=Mirrors(folder / f"mirrors-{number}", git, max_bytes=10**9),
        github=key,
        github_url=key.api_url,
        key=SigningKey(b"\x07" * 32),
        holder=this_process(),
        revision="test",
        bounds=Bounds(),
        now=lambda: time.time_ns() // 1_000_000,
        jitter=random.random,
    )


def _advance(hub: tuple[Path, str, AppKey, int], branch: str, together: Barrier) -> None:
    place = _another_hub(*hub)
    together.wait(60)
    publish.advance_branch(place, branch)


def _open(key: AppKey, ids: tuple[int, int], together: Barrier, numbers: "multiprocessing.Queue[int]") -> None:
    installation, repository = ids
    forge = Forge.connect(
        key, installation_id=installation, full_name="acme/demo", repository_id=repository, permissions=PERMISSIONS
    )
    together.wait(60)
    numbers.put(forge.open_pull_request(head_ref="mac/one", base="main", title="One", body="of many").number)
    forge.close()


def test_many_hubs_on_one_ledger_open_one_pull_request(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.ruleset(required_checks=[("ci/test", scene.ci)], strict=True)
    scene.register()
    scene.task()
    head = scene.hands_in(scene.lease(), {"a.txt": "b\n"})

    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(ASKERS)
    url, branch, key = f"sqlite:///{tmp_path / 'ledger.sqlite'}", scene.branch, scene.place.github
    hubs = [spawn.Process(target=_advance, args=((tmp_path, url, key, n), branch, together)) for n in range(ASKERS)]
    for hub in hubs:
        hub.start()
    for hub in hubs:
        hub.join(90)
    assert [hub.exitcode for hub in hubs] == [0] * ASKERS

    assert scene.advance() == [], "the hubs brought it to rest"
    assert [pull.head_sha for pull in scene.repo.pull_requests.values()] == [head]
    assert github.calls()["POST /repos/{owner}/{repo}/pulls"] == 1
    assert scene.repo.tip() != head, "nothing lands without its check"


def test_askers_that_know_nothing_of_each_other_get_the_same_pull_request(github: Sandbox, tmp_path: Path) -> None:
    scene = Scene.set_up(github, tmp_path)
    scene.repo.commit(on="mac/one", files={"a.txt": "b\n"})

    spawn = multiprocessing.get_context("spawn")
    together, numbers = spawn.Barrier(ASKERS), spawn.Queue()
    args = (scene.place.github, (scene.hub.installation_id, scene.repo.id), together, numbers)
    askers = [spawn.Process(target=_open, args=args) for _ in range(ASKERS)]
    for asker in askers:
        asker.start()
    got = {numbers.get(timeout=90) for _ in askers}
    for asker in askers:
        asker.join(30)

    assert got == {1}
    assert list(scene.repo.pull_requests) == [1]
