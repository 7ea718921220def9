"""The sandbox as tests use it: `with Sandbox.start(folder) as github:`, and handles that read as sentences."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jwt

from tests.sandbox import moved, tally
from tests.sandbox.auth import Caller, mint
from tests.sandbox.deliveries import Courier, Mishap
from tests.sandbox.endpoints import Call
from tests.sandbox.gitdir import GitDir
from tests.sandbox.making import Files, Maker, checks_rule, key_pair, pull_request_rule
from tests.sandbox.merging import Merge, merge
from tests.sandbox.orders import OrderBook
from tests.sandbox.referee import Referee
from tests.sandbox.rest_checks import create_check_run, create_status
from tests.sandbox.rest_pulls import open_pull
from tests.sandbox.serve import Front, Server
from tests.sandbox.world import (
    App,
    Clock,
    Delivery,
    Installation,
    Json,
    Protection,
    Pull,
    Repository,
    RequiredCheck,
    Review,
    Ruleset,
    World,
)

MINT_ROUTE = "/app/installations/{installation_id}/access_tokens"


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Sandbox:
    """One GitHub on a loopback port. `url` serves REST and git alike."""

    def __init__(self, home: Path, clock: Clock, port: int) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.world = World(home, clock)
        self.referee = Referee()
        self.courier = Courier(self.world, self.referee.judge_event)
        self.orders = OrderBook()
        self.maker = Maker(self.world, self.courier)
        self._server = Server(Front(self.maker, self.orders, self.referee), port)
        self.url = self.world.base_url = self._server.url

    @classmethod
    def start(cls, home: Path, clock: Clock | None = None, port: int = 0) -> "Sandbox":
        """A running sandbox; its clock gives whole milliseconds and is the wall clock unless one is handed in."""
        return cls(home, clock or wall_clock_ms, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
        if kind is None:
            self.orders.assert_used()
            self.referee.assert_clean()

    def close(self) -> None:
        """Ends the server and the webhook threads; held requests are let go first."""
        self.orders.release_all()
        self._server.close()
        self.courier.close()
        tally.keep()

    def repository(self, full_name: str, files: Files | None = None, **more: Any) -> "Repo":
        """A repository with these files in its first commit; `source=` takes all refs of a bundle or repository."""
        return Repo(self, self.maker.repository(full_name, files, **more))

    def fork(self, repo: "Repo", owner: str) -> "Repo":
        name = f"{owner}/{repo.record.name}"
        return Repo(self, self.maker.repository(name, parent=repo.record, default_branch=repo.record.default_branch))

    def app(self, slug: str, permissions: Mapping[str, str] | None = None, **more: Any) -> "AppHandle":
        """An App with a key of its own, installed on `owner` ("acme")."""
        return AppHandle(self, self.maker.app(slug, permissions, **more), key_pair(slug)[0])

    def person(self, login: str) -> str:
        """A person's access token."""
        return self.maker.person(login).token or ""

    def calls(self, caller: str | None = None) -> Counter[str]:
        """How often each operation was asked for ("GET /repos/{owner}/{repo}"); minting tokens is left out."""
        with self.world.lock:
            seen = [r for r in self.world.requests if r.route != MINT_ROUTE and caller in (None, r.caller)]
            return Counter(f"{r.method} {r.route}" if not r.route.startswith("git ") else r.route for r in seen)

    def token_mints(self) -> int:
        with self.world.lock:
            return sum(1 for r in self.world.requests if r.route == MINT_ROUTE)

    def forget_calls(self) -> None:
        with self.world.lock:
            self.world.requests.clear()

    def deliveries(self, event: str | None = None) -> list[Delivery]:
        """The webhook deliveries so far, oldest first, those under way included."""
        with self.world.lock:
            return [d for d in self.world.deliveries if event in (None, d.event)]

    def mishap(self, kind: str, event: str = "*", times: int = 1) -> None:
        """The next deliveries of this event are to `lose`, `double` or `swap`."""
        assert kind in ("lose", "double", "swap"), kind
        self.courier.mishaps.append(Mishap(kind, event, times))

    def settle(self, timeout_s: float = 20) -> None:
        """Waits until every webhook has been answered; raises AssertionError if that takes too long."""
        assert self.courier.settle(timeout_s), "webhooks are still under way"


class Repo:
    """A repository, as a test speaks of it."""

    def __init__(self, github: Sandbox, record: Repository) -> None:
        self.github, self.record = github, record
        self.git = GitDir(record.path)
        self.full_name, self.id, self.path = record.full_name, record.id, record.path

    @property
    def clone_url(self) -> str:
        return f"{self.github.url}/{self.record.full_name}.git"

    @property
    def pull_requests(self) -> dict[int, Pull]:
        return self.record.pulls

    def tip(self, branch: str = "main") -> str:
        """The tip of a branch, from git itself; raises AssertionError if there is none."""
        sha = self.git.tip(f"refs/heads/{branch}")
        assert sha is not None, f"no branch {branch} in {self.full_name}"
        return sha

    def refs(self, start: str = "refs/") -> dict[str, str]:
        return {ref: sha for ref, sha in self.git.refs().items() if ref.startswith(start)}

    def file(self, path: str, at: str = "main") -> str | None:
        """The content of a file at a revision; None if it is not there."""
        return self.git.run("cat-file", "blob", f"{at}:{path}") if self.git.tip(f"{at}:{path}") else None

    def commit(
        self, on: str = "main", files: Files | None = None, message: str = "Change", author: str = "somebody"
    ) -> str:
        """Commits on a branch, made from the default branch if need be; past every rule, with all its events."""
        return self.github.maker.commit(self.record, on, files or {}, message, author)

    def move(self, ref: str, sha: str | None, by: str = "somebody") -> None:
        """Sets (or with None deletes) a full ref by hand, past every rule, with all its events."""
        self.github.maker.move(self.record, ref, sha, by)

    def settle(self) -> None:
        """Notices what was moved in the bare repository behind the sandbox's back."""
        moved.settle(self.github.courier, self.record, self.github.world.owner("ghost", "User"))

    def ruleset(
        self,
        required_checks: Sequence[tuple[str, "AppHandle | int | None"]] = (),
        strict: bool = False,
        pull_request: bool = False,
        approvals: int = 0,
        rules: Sequence[str | Json] = (),
        **more: Any,
    ) -> Ruleset:
        """A ruleset on the default branch. `rules` names plain ones ("non_fast_forward"), or gives them whole."""
        made: list[Json] = [{"type": rule} if isinstance(rule, str) else rule for rule in rules]
        if required_checks:
            made.append(checks_rule([(c, _app_id(app)) for c, app in required_checks], strict))
        if pull_request or approvals:
            made.append(pull_request_rule(approvals))
        return self.github.maker.ruleset(self.record, made, **more)

    def protect(
        self,
        branch: str = "main",
        required_checks: Sequence[tuple[str, "AppHandle | int | None"]] | None = None,
        **more: Any,
    ) -> None:
        """Classic protection; further fields as in `world.Protection`."""
        listed = [RequiredCheck(context, _app_id(app)) for context, app in required_checks or []]
        rules = Protection(required_checks=None if required_checks is None else listed, **more)
        self.github.maker.protect(self.record, branch, rules)

    def open_pull(
        self, head: str, base: str = "main", title: str = "A change", by: str = "somebody", **more: Any
    ) -> Pull:
        """Opens a pull request in a person's name."""
        with self.github.world.lock:
            author, body = self.github.world.owner(by, "User"), {"head": head, "base": base, "title": title, **more}
            return open_pull(self.github.courier, self.record, author, body)

    def merge(self, number: int, by: str = "somebody", method: str = "merge") -> str:
        """A person merges by hand, through the same rules as everybody; raises `Refused`. Returns the sha."""
        with self.github.world.lock:
            person = self.github.world.owner(by, "User")
            pull, body = self.record.pulls[number], {"merge_method": method}
            return merge(Merge(self.github.courier, self.record, pull, Caller(person=person), person, body))

    def review(self, number: int, state: str = "APPROVED", by: str = "reviewer") -> None:
        with self.github.world.lock:
            world, pull = self.github.world, self.record.pulls[number]
            user = world.owner(by, "User")
            pull.reviews.append(Review(world.next_id(), user, state, "", pull.head_sha, world.clock()))

    def role(self, login: str, permission: str) -> None:
        """What a person is said to be here (`read`, `write`, `admin`, `none`); who is not named may write."""
        self.github.world.owner(login, "User")
        self.record.roles[login.lower()] = permission

    def comment(self, number: int, body: str, by: str = "somebody") -> None:
        """A person comments on a pull request."""
        self.github.maker.comment(self.record, number, body, by)

    def comments(self, number: int) -> list[str]:
        return [c.body for c in self.record.comments if c.number == number]

    def check_runs(self, sha: str) -> list[tuple[str, str, str | None]]:
        """Name, status and conclusion of every check run at a commit, oldest first."""
        return [(r.name, r.status, r.conclusion) for r in self.record.runs if r.suite.head_sha == sha]


def _app_id(app: "AppHandle | int | None") -> int | None:
    return app.id if isinstance(app, AppHandle) else app


class AppHandle:
    """An App with its private key, as a test speaks of it."""

    def __init__(self, github: Sandbox, installation: Installation, private_key: str) -> None:
        self.github, self.installation, self.private_key = github, installation, private_key
        self.record: App = installation.app
        self.id, self.slug, self.installation_id = self.record.id, self.record.slug, installation.id

    def webhook(self, url: str, secret: str) -> None:
        self.github.maker.set_webhook(self.record, url, secret)

    def jwt(self, life_s: int = 300) -> str:
        now_s = self.github.world.clock() // 1000
        claims = {"iat": now_s - 30, "exp": now_s + life_s, "iss": str(self.id)}
        return jwt.encode(claims, self.private_key, algorithm="RS256")

    def token(self, **narrowed: Any) -> str:
        """An installation token, without a request."""
        with self.github.world.lock:
            return mint(self.github.world, self.installation, narrowed).value

    def revoke_tokens(self) -> None:
        """Every token of this App stops working now."""
        with self.github.world.lock:
            kept = {v: t for v, t in self.github.world.tokens.items() if t.installation is not self.installation}
            self.github.world.tokens = kept

    def reports(self, repo: Repo, sha: str, name: str, conclusion: str | None, **more: Any) -> int:
        """Writes a check run (None: in progress) and returns its id."""
        body = {"name": name, "head_sha": sha, **more}
        body |= {"status": "in_progress"} if conclusion is None else {"conclusion": conclusion}
        answer = self._act(create_check_run, repo, body, {})
        return int(answer.body["id"])

    def sets_status(self, repo: Repo, sha: str, context: str, state: str) -> None:
        """Writes a commit status."""
        self._act(create_status, repo, {"context": context, "state": state}, {"sha": sha})

    def _act(self, handler: Callable[[Call], Any], repo: Repo, body: Json, args: Mapping[str, str]) -> Any:
        world = self.github.world
        with world.lock:
            caller = Caller(token=mint(world, self.installation, {}))
            return handler(Call(world, self.github.courier, caller, world.base_url, args, {}, body, repo.record))
