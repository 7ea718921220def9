"""Making and moving things in the world from outside of GitHub's own doors: what tests and the demo begin with."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.sandbox import moved, shape
from tests.sandbox.deliveries import Courier
from tests.sandbox.events import Announcer
from tests.sandbox.gitdir import ZERO, GitDir, Signature
from tests.sandbox.world import (
    App,
    Comment,
    Installation,
    Json,
    Owner,
    Protection,
    Repository,
    Ruleset,
    World,
)

Files = Mapping[str, str | bytes | None]

PERMISSIONS = {
    "administration": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
    "statuses": "write",
}
"""What an App is granted unless it is told otherwise: enough to review and land, and to read the rules."""

EVENTS = ["check_run", "check_suite", "issue_comment", "pull_request", "pull_request_review", "push", "status"]
"""What an App subscribes to unless told otherwise; `ping` and `installation` need no subscription."""


@functools.cache
def key_pair(slug: str) -> tuple[str, str]:
    """Private and public key (PEM) of an App, generated once in a process for each name, since it takes a while."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private.decode(), public.decode()


def checks_rule(checks: Sequence[tuple[str, int | None]], strict: bool) -> Json:
    """The ruleset rule that requires these checks, each pinned to an App id or open to any."""
    listed = [{"context": c} if app is None else {"context": c, "integration_id": app} for c, app in checks]
    parameters = {
        "required_status_checks": listed,
        "strict_required_status_checks_policy": strict,
        "do_not_enforce_on_create": True,
    }
    return {"type": "required_status_checks", "parameters": parameters}


def pull_request_rule(approvals: int = 0) -> Json:
    parameters = {
        "dismiss_stale_reviews_on_push": False,
        "require_code_owner_review": False,
        "require_last_push_approval": False,
        "required_approving_review_count": approvals,
        "required_review_thread_resolution": False,
    }
    return {"type": "pull_request", "parameters": parameters}


class Maker:
    """Makes and moves things in one world, and announces what GitHub would announce."""

    def __init__(self, world: World, courier: Courier) -> None:
        self.world, self.courier = world, courier

    def signature(self, name: str) -> Signature:
        return Signature(name, f"{name.replace(' ', '.')}@example.org", self.world.clock() // 1000)

    def person(self, login: str) -> Owner:
        """A person with an access token of their own; they may do everything."""
        with self.world.lock:
            owner = self.world.owner(login, "User")
            owner.token = owner.token or f"ghp_{login}_{self.world.next_id()}"
            return owner

    def repository(
        self,
        full_name: str,
        files: Files | None = None,
        *,
        source: Path | None = None,
        default_branch: str = "main",
        private: bool = True,
        parent: Repository | None = None,
    ) -> Repository:
        """A repository with a first commit of these files, or with all refs of a bundle or repository at `source`."""
        owner_name, _, name = full_name.partition("/")
        with self.world.lock:
            number = self.world.next_id()
            path = self.world.home / "repositories" / f"{number}.git"
            path.parent.mkdir(parents=True, exist_ok=True)
            git = GitDir.create(path, default_branch)
            owner = self.world.owner(owner_name, "User" if parent is not None else "Organization")
            made = Repository(number, owner, name, path, default_branch, self.world.clock(), private, parent)
            origin = source or (parent.path if parent is not None else None)
            if origin is not None:
                git.run("fetch", "--quiet", str(origin), "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            elif files is not None:
                git.write(f"refs/heads/{default_branch}", files, "Begin", self.signature(owner_name), [])
            made.known_refs = git.refs()
            self.world.repositories[number] = made
            return made

    def app(
        self,
        slug: str,
        permissions: Mapping[str, str] | None = None,
        *,
        owner: str = "acme",
        webhook_url: str | None = None,
        webhook_secret: str = "",
        events: Sequence[str] | None = None,
        only: Sequence[Repository] | None = None,
        public_key_pem: str | None = None,
    ) -> Installation:
        """An App and its installation on one account; `only` narrows that to some repositories."""
        with self.world.lock:
            world, now_ms = self.world, self.world.clock()
            number = world.next_id()
            app = App(
                id=number,
                slug=slug,
                owner=world.owner(owner),
                bot=world.owner(f"{slug}[bot]", "Bot"),
                public_key_pem=public_key_pem or key_pair(slug)[1],
                permissions=dict(PERMISSIONS if permissions is None else permissions),
                events=list(EVENTS if events is None else events),
                client_id=f"Iv23li{number:014d}",
                hook_id=world.next_id(),
                created_ms=now_ms,
                webhook_url=webhook_url,
                webhook_secret=webhook_secret,
            )
            world.apps[number] = app
            chosen = None if only is None else {repository.id for repository in only}
            installation = Installation(world.next_id(), app, app.owner, chosen, now_ms)
            world.installations[installation.id] = installation
        self._greet(installation)
        return installation

    def set_webhook(self, app: App, url: str, secret: str) -> None:
        """Points an App's webhook somewhere, and sends the ping and the installation that GitHub would."""
        app.webhook_url, app.webhook_secret = url, secret
        for installation in list(self.world.installations.values()):
            if installation.app is app:
                self._greet(installation)

    def _greet(self, installation: Installation) -> None:
        app, base = installation.app, self.world.base_url
        if not app.webhook_url:
            return
        stamp = shape.instant(app.created_ms)
        config = {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": app.webhook_url}
        hook = {"type": "App", "id": app.hook_id, "name": "web", "active": True, "events": app.events}
        hook |= {"app_id": app.id, "config": config, "created_at": stamp, "updated_at": stamp}
        ping = {"zen": "Keep it logically awesome.", "hook_id": app.hook_id, "hook": hook}
        self.courier.send(app, "ping", ping, None, None)
        covered = [
            {
                "id": repository.id,
                "node_id": shape.node_id("Repository", repository.id),
                "name": repository.name,
                "full_name": repository.full_name,
                "private": repository.private,
            }
            for repository in self.world.repositories_of(installation)
        ]
        body: Json = {"action": "created", "installation": shape.installation(base, installation)}
        body |= {"repositories": covered, "sender": shape.user(base, app.owner)}
        self.courier.send(app, "installation", body, None, installation.id)

    def ruleset(
        self,
        repository: Repository,
        rules: Sequence[Json],
        *,
        name: str = "the rules",
        include: Sequence[str] = ("~DEFAULT_BRANCH",),
        bypass_actors: Sequence[Json] = (),
        enforcement: str = "active",
    ) -> Ruleset:
        with self.world.lock:
            conditions: Json = {"ref_name": {"include": list(include), "exclude": []}}
            made = Ruleset(self.world.next_id(), name, list(rules), conditions, list(bypass_actors), self.world.clock())
            made.enforcement = enforcement
            repository.rulesets.append(made)
            return made

    def commit(
        self, repository: Repository, on: str, files: Files, message: str = "Change", author: str = "somebody"
    ) -> str:
        """Commits on a branch (made from the default branch if it is not there) and draws the consequences."""
        with self.world.lock:
            git, ref = GitDir(repository.path), f"refs/heads/{on}"
            parent = git.tip(ref) or git.tip(f"refs/heads/{repository.default_branch}")
            sha = git.write(ref, files, message, self.signature(author), [parent] if parent else [])
            moved.settle(self.courier, repository, self.world.owner(author, "User"))
            return sha

    def move(self, repository: Repository, ref: str, sha: str | None, by: str = "somebody") -> None:
        """Sets a ref by hand, past every rule; None deletes it."""
        with self.world.lock:
            GitDir(repository.path).move(ref, sha or ZERO)
            moved.settle(self.courier, repository, self.world.owner(by, "User"))

    def rename(self, repository: Repository, name: str) -> None:
        with self.world.lock:
            repository.former_names.append(repository.full_name.lower())
            repository.name = name

    def rename_branch(self, repository: Repository, old: str, new: str) -> None:
        """Renames a branch as GitHub does: reads of the old name answer 301, and HEAD follows."""
        with self.world.lock:
            git = GitDir(repository.path)
            sha = git.tip(f"refs/heads/{old}")
            assert sha is not None, f"no branch {old}"
            if repository.default_branch == old:
                repository.default_branch = new
                git.run("symbolic-ref", "HEAD", f"refs/heads/{new}")
            for pull in repository.pulls.values():
                pull.base_ref = new if pull.base_ref == old else pull.base_ref
            repository.former_branches[old] = new
            git.move(f"refs/heads/{new}", sha)
            git.move(f"refs/heads/{old}", ZERO)
            moved.settle(self.courier, repository, repository.owner)

    def protect(self, repository: Repository, branch: str, rules: Protection) -> None:
        """Sets classic protection of a branch, or of all that match a pattern."""
        with self.world.lock:
            repository.protections[branch] = rules

    def comment(self, repository: Repository, number: int, body: str, by: str) -> Comment:
        """A person's comment on a pull request, announced."""
        with self.world.lock:
            now_ms, author = self.world.clock(), self.world.owner(by, "User")
            one = Comment(self.world.next_id(), number, author, None, body, now_ms, now_ms)
            repository.comments.append(one)
            Announcer(self.courier, repository, author).issue_comment(repository.pulls[number], one)
            return one
