"""A repository on the sandbox with our App beside a CI App: the world that forge, observe and report meet."""

from dataclasses import dataclass, field
from pathlib import Path

from pipeline.facts import EvidenceFacts, Remote, Repository
from tests.sandbox.sandbox import AppHandle, Repo, Sandbox
from workers.clone import Mirrors
from workers.clone import Remote as Place
from workers.forge import AppKey, Forge
from workers.git import Git
from workers.observe import Sight, observe

PERMISSIONS = {
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "read",
}
HEAD = "mac/one"
NOW = 1_700_000_000_000


@dataclass
class Town:
    """What a test needs to look at one publication. Change a field, then `look`."""

    github: Sandbox
    repo: Repo
    hub: AppHandle
    ci: AppHandle
    git: Git
    home: Path
    base: str
    head: str
    forges: list[Forge] = field(default_factory=list)

    @staticmethod
    def made(github: Sandbox, git: Git, home: Path) -> "Town":
        hub = github.app("mac-hub", permissions=PERMISSIONS)
        ci = github.app("ci-app", permissions={"checks": "write", "statuses": "write", "metadata": "read"})
        repo = github.repository("acme/hub", files={"README.md": "hello\n"})
        base = repo.tip()
        head = repo.commit(on=HEAD, files={"new.txt": "new\n"})
        return Town(github, repo, hub, ci, git, home, base, head)

    @property
    def key(self) -> AppKey:
        return AppKey(self.github.url, self.hub.id, self.hub.private_key, timeout_ms=5_000)

    def forge(self, **permissions: str) -> Forge:
        forge = Forge.connect(
            self.key,
            installation_id=self.hub.installation_id,
            full_name=self.repo.full_name,
            repository_id=self.repo.id,
            permissions=permissions or PERMISSIONS,
        )
        self.forges.append(forge)
        return forge

    def close(self) -> None:
        for forge in self.forges:
            forge.close()

    def sight(self, *, pull_request: int | None = None, pushed: bool = True, head: str | None = None) -> Sight:
        reviewed = head or self.head
        return Sight(
            repository=Repository(self.repo.id, "main", HEAD, frozenset()),
            evidence=EvidenceFacts(
                "d" * 64, reviewed, self.repo.git.run("rev-parse", f"{reviewed}^{{tree}}").strip(), self.base
            ),
            pull_request=pull_request,
            pushed=reviewed if pushed else None,
            own_app_id=self.hub.id,
        )

    def look(self, sight: Sight | None = None, forge: Forge | None = None) -> Remote:
        used = forge or self.forge()
        remote = Place(self.repo.id, self.repo.clone_url, lambda: used.token.secret)
        with Mirrors(self.home / "mirrors", self.git, max_bytes=10**9).open(remote) as mirror:
            return observe(sight or self.sight(), used, mirror, now=NOW)
