"""The forge, for one repository and with a token for that repository only: what is read there, and what is written.

A list is handed out only when it was read to its end and the count that the forge names agrees. Writes are sent once.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, cast
from urllib.parse import quote

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from github import Auth

from pipeline.errors import Unavailable, ensure
from pipeline.facts import Check, CheckKind, PullRequest, Reviews, Sha
from workers import rest
from workers.refs import whole_sha
from workers.rest import ForgeAnswer, Rest, instant_ms

READERS: Final = 6
FRESH_MS: Final = 300_000
_RANK: Final[Mapping[str, int]] = {"read": 1, "write": 2, "admin": 3}
# Members whose membership is private look like contributors to an App, so those are counted too: GitHub itself judges
# who may approve, and refuses a merge whose approvals do not suffice.
_STRANGERS: Final = frozenset({"NONE", "FIRST_TIMER", "FIRST_TIME_CONTRIBUTOR", "MANNEQUIN"})
_THREADS: Final = """query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) {
    reviewThreads(first: 100, after: $after) { nodes { isResolved } pageInfo { hasNextPage endCursor } } } } }"""


@dataclass(frozen=True, slots=True)
class AppKey:
    """Our App at the forge. The key is never shown."""

    api_url: str
    app_id: int
    private_key: str = field(repr=False)
    timeout_ms: int = 15_000


@cache
def signing_key(pem: str) -> RSAPrivateKey:
    """The App's key, read once for each process and inherited by those it forks: checking one takes longer than a whole
    request. Raises `ValueError` when it is no RSA key in PEM, without quoting it."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError("the App's private key is no key in PEM") from error
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("the App's private key is no RSA key")
    return key


@dataclass(frozen=True, slots=True)
class Token:
    """An installation token for one repository. `permissions` are what the forge granted, as `contents:write`; a
    stronger one names the weaker too. `expires_at` is in milliseconds."""

    secret: str = field(repr=False)
    permissions: frozenset[str]
    expires_at: int


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """A repository as the forge describes it."""

    id: int
    full_name: str
    default_branch: str
    clone_url: str
    private: bool
    archived: bool


def _as_app(key: AppKey) -> Rest:
    """Speak as the App itself, with an assertion that is signed anew for each request."""
    auth = Auth.AppAuth(key.app_id, cast(Callable[[], str], partial(signing_key, key.private_key)))
    return Rest(key.api_url, auth, timeout_ms=key.timeout_ms)


def mint_token(key: AppKey, installation_id: int, repository_id: int, permissions: Mapping[str, str]) -> Token:
    """Ask for a token that reaches this repository only, with these permissions only (`{"contents": "write"}`).

    Raises `ForgeAnswer(unprocessable)` when the installation does not grant them, `Unavailable` without an answer.
    """
    app = _as_app(key)
    answer = app.send(
        "POST",
        f"/app/installations/{installation_id}/access_tokens",
        {"repository_ids": [repository_id], "permissions": dict(permissions)},
    )
    granted = rest.field(answer, "permissions")
    return Token(rest.field(answer, "token"), _permissions(granted), instant_ms(rest.field(answer, "expires_at")))


def app_slug(key: AppKey) -> str:
    """The App's slug; it signs as `<slug>[bot]`. Raises `Unavailable`."""
    app = _as_app(key)
    return str(rest.field(app.get("/app"), "slug"))


def installation_of(key: AppKey, full_name: str) -> tuple[int, Mapping[str, str]]:
    """The installation that covers a repository, and its permissions. Raises `ForgeAnswer(not_found)` without one."""
    app = _as_app(key)
    answer = app.get(f"/repos/{_path(full_name)}/installation")
    return int(rest.field(answer, "id")), dict(rest.field(answer, "permissions"))


def repository_id_of(key: AppKey, installation_id: int, full_name: str) -> int:
    """The number of a repository that is known by its name only, read with a token for just that name. Used once, at
    registration: from then on the number is what counts. Raises as `mint_token`."""
    app = _as_app(key)
    asked = {"repositories": [full_name.partition("/")[2]], "permissions": {"metadata": "read"}}
    answer = app.send("POST", f"/app/installations/{installation_id}/access_tokens", asked)
    token = Auth.Token(rest.field(answer, "token"))
    found = Rest(key.api_url, token, timeout_ms=key.timeout_ms).get(f"/repos/{_path(full_name)}")
    return int(rest.field(found, "id"))


class Forge:
    """One repository at the forge. `readers` is a pool for reading side by side; close the forge when done with it."""

    def __init__(self, key: AppKey, token: Token, full_name: str, repository_id: int) -> None:
        self.key = key
        self.token = token
        self.full_name = full_name
        self.repository_id = repository_id
        self.readers = ThreadPoolExecutor(READERS, thread_name_prefix="forge")
        self._rest = Rest(key.api_url, Auth.Token(token.secret), timeout_ms=key.timeout_ms)
        self._root = f"/repos/{_path(full_name)}"

    @staticmethod
    def connect(
        key: AppKey, *, installation_id: int, full_name: str, repository_id: int, permissions: Mapping[str, str]
    ) -> "Forge":
        """Mint a token for this repository and speak with it. Raises as `mint_token`."""
        return Forge(key, mint_token(key, installation_id, repository_id, permissions), full_name, repository_id)

    def close(self) -> None:
        """End the readers, waiting for none of them."""
        self.readers.shutdown(wait=False, cancel_futures=True)

    def fresh(self, now: int) -> bool:
        """Whether the token still lives long enough for one more landing (5 minutes)."""
        return self.token.expires_at - now >= FRESH_MS

    @property
    def calls(self) -> int:
        """How many requests were sent, the minting not counted."""
        return self._rest.calls

    # --- reading

    def repository(self) -> RepositoryFacts:
        """The repository. Raises `Unavailable(repository_replaced)` when the name belongs to another one now."""
        found = self._rest.get(self._root)
        self._ours(found)
        return RepositoryFacts(
            id=int(found["id"]),
            full_name=str(rest.field(found, "full_name")),
            default_branch=str(rest.field(found, "default_branch")),
            clone_url=str(rest.field(found, "clone_url")),
            private=bool(found.get("private")),
            archived=bool(found.get("archived")),
        )

    def ruleset_rules(self, branch: str) -> tuple[Mapping[str, Any], ...]:
        """Every active ruleset rule for a branch. Raises `ForgeAnswer` when it may not be read."""
        try:
            pages = list(self._rest.pages(f"{self._root}/rules/branches/{quote(branch, safe='')}"))
        except ForgeAnswer as answer:
            if _not_offered(answer):
                return ()
            raise
        return tuple(rule for page in pages for rule in _listed(page))

    def protection(self, branch: str) -> Mapping[str, Any] | None:
        """Classic protection of a branch; None only where the forge says in so many words that there is none.

        Raises `ForgeAnswer`: any other 404 (a branch that is gone, a repository that is hidden) and 403 are unknown.
        """
        try:
            found = self._rest.get(f"{self._root}/branches/{quote(branch, safe='')}/protection")
        except ForgeAnswer as answer:
            if _not_offered(answer) or (answer.status == 404 and answer.message.lower() == "branch not protected"):
                return None
            raise
        if not isinstance(found, dict):
            raise Unavailable("answer_malformed", "the protection of a branch is no object")
        return found

    def bypassed_rulesets(self, ids: frozenset[int]) -> frozenset[int]:
        """Which of these rulesets list our App as a bypass actor; one request for each, so at registration only."""
        found = {i: self._rest.get(f"{self._root}/rulesets/{i}") for i in ids}
        return frozenset(i for i, ruleset in found.items() if ruleset.get("current_user_can_bypass", "never") != "never")

    def check_runs(self, sha: Sha) -> tuple[Check, ...]:
        """Every check run of a commit, repeats included. Raises `Unavailable(page_incomplete)` when any is missing."""
        path = f"{self._root}/commits/{whole_sha(sha)}/check-runs"
        return self._checks(path, {"filter": "all"}, "check_runs", _check_run)

    def statuses(self, sha: Sha) -> tuple[Check, ...]:
        """The latest commit status of each context. Raises `Unavailable(page_incomplete)` when any is missing."""
        return self._checks(f"{self._root}/commits/{whole_sha(sha)}/status", {}, "statuses", _status)

    def pull_request(self, number: int) -> PullRequest:
        """The pull request of that number. Raises `ForgeAnswer(not_found)`."""
        return self._pull_request(self._rest.get(f"{self._root}/pulls/{number}"))

    def find_pull_request(self, head_ref: str, base: str) -> PullRequest | None:
        """The pull request from our own branch into `base`: an open one first, then the latest. A fork's branch of the
        same name is never taken for it."""
        owner = self.full_name.partition("/")[0]
        asked = {"head": f"{owner}:{head_ref}", "base": base, "state": "all"}
        pages = self._rest.pages(f"{self._root}/pulls", asked)
        found = [self._pull_request(entry) for page in pages for entry in _listed(page)]
        ours = [p for p in found if p.head_repository_id == self.repository_id and p.head_ref == head_ref]
        return max(ours, key=lambda p: (p.open, p.number), default=None)

    def reviews(self, number: int, *, conversations: bool) -> Reviews:
        """Who stands where, by each person's last word; strangers to the repository do not count.

        Open conversations are counted only when asked for (a request of another kind); 0 otherwise.
        """
        standing: dict[int, str] = {}
        for page in self._rest.pages(f"{self._root}/pulls/{number}/reviews"):
            for review in _listed(page):
                state = str(rest.field(review, "state")).upper()
                person = (review.get("user") or {}).get("id")
                if person is None or state not in {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}:
                    continue
                if review.get("author_association") not in _STRANGERS:
                    standing[person] = state
        words = list(standing.values())
        still_open = self._open_conversations(number) if conversations else 0
        return Reviews(words.count("APPROVED"), words.count("CHANGES_REQUESTED"), still_open)

    # --- writing

    def open_pull_request(self, *, head_ref: str, base: str, title: str, body: str) -> PullRequest:
        """Open the pull request from our branch, or return the one that is open already.

        After a time-out the caller may call again: the forge admits one open pull request for a pair of branches.
        """
        try:
            found = self._rest.send(
                "POST", f"{self._root}/pulls", {"title": title, "body": body, "head": head_ref, "base": base}
            )
        except ForgeAnswer as answer:
            there = self.find_pull_request(head_ref, base) if answer.status == 422 else None
            if there is None or not there.open:
                raise
            return there
        return self._pull_request(found)

    def own_check_runs(self, sha: Sha, name: str) -> tuple[Mapping[str, Any], ...]:
        """The check runs of this name that our own App made on a commit, the newest first."""
        path = f"{self._root}/commits/{whole_sha(sha)}/check-runs"
        asked: dict[str, str | int] = {"check_name": name, "app_id": self.key.app_id, "filter": "all"}
        runs = [run for page in self._rest.pages(path, asked) for run in rest.field(page, "check_runs")]
        ours = [r for r in runs if r.get("name") == name and (r.get("app") or {}).get("id") == self.key.app_id]
        return tuple(sorted(ours, key=lambda run: int(run["id"]), reverse=True))

    def create_check_run(self, body: Mapping[str, Any]) -> int:
        """Create a check run and return its id. After an error the caller looks before creating again."""
        return int(rest.field(self._rest.send("POST", f"{self._root}/check-runs", body), "id"))

    def update_check_run(self, run_id: int, body: Mapping[str, Any]) -> None:
        """Change a check run in place."""
        self._rest.send("PATCH", f"{self._root}/check-runs/{run_id}", body)

    def put_merge(self, number: int, body: Mapping[str, str]) -> Any:
        """The merge request itself, for `workers.merge_api` only. It always names the head that it is about."""
        ensure("sha" in body, "a merge names the head that it is about")
        return self._rest.send("PUT", f"{self._root}/pulls/{number}/merge", body)

    # --- inner

    def _checks(self, path: str, asked: Mapping[str, str | int], name: str, read: Any) -> tuple[Check, ...]:
        found: dict[int, Check] = {}
        promised = 0
        for page in self._rest.pages(path, asked):
            promised = max(promised, int(rest.field(page, "total_count")))
            for entry in rest.field(page, name):
                check: Check = read(entry)
                found[check.id] = check
        if len(found) < promised:
            raise Unavailable("page_incomplete", f"{len(found)} of {promised} {name} were read")
        return tuple(found.values())

    def _pull_request(self, found: Any) -> PullRequest:
        self._ours(rest.field(found, "base", "repo"))
        merged = bool(found.get("merged")) or found.get("merged_at") is not None
        merger = (found.get("merged_by") or {}).get("login")
        head_repository = rest.field(found, "head", "repo") or {}
        return PullRequest(
            number=int(rest.field(found, "number")),
            open=rest.field(found, "state") == "open",
            merged=merged,
            merged_by_app=merged and merger is not None and merger == f"{app_slug(self.key)}[bot]",
            base=str(rest.field(found, "base", "ref")),
            head_ref=str(rest.field(found, "head", "ref")),
            head_sha=str(rest.field(found, "head", "sha")),
            head_repository_id=int(head_repository.get("id", 0)),
            merge_commit=found.get("merge_commit_sha") if merged else None,
        )

    def _ours(self, found: Any) -> None:
        if int(rest.field(found, "id")) != self.repository_id:
            raise Unavailable("repository_replaced", f"{self.full_name} is another repository now")

    def _open_conversations(self, number: int) -> int:
        owner, _, name = self.full_name.partition("/")
        still_open, after = 0, None
        for _ in range(rest.PAGES_MAX):
            asked = {"owner": owner, "name": name, "number": number, "after": after}
            threads = self._rest.graphql(_THREADS, asked, "repository", "pullRequest", "reviewThreads")
            still_open += sum(1 for node in rest.field(threads, "nodes") if not node["isResolved"])
            if not rest.field(threads, "pageInfo", "hasNextPage"):
                return still_open
            after = rest.field(threads, "pageInfo", "endCursor")
        raise Unavailable("page_incomplete", "there are more conversations than pages to read")


def _check_run(run: Any) -> Check:
    return Check(
        kind=CheckKind.RUN,
        id=int(rest.field(run, "id")),
        context=str(rest.field(run, "name")),
        app_id=(run.get("app") or {}).get("id"),
        status=str(rest.field(run, "status")),
        conclusion=run.get("conclusion"),
        started_at=run.get("started_at"),
        completed_at=run.get("completed_at"),
    )


def _status(status: Any) -> Check:
    """A commit status has one word only; it stands as both, and carries no App."""
    state = str(rest.field(status, "state"))
    return Check(
        kind=CheckKind.STATUS,
        id=int(rest.field(status, "id")),
        context=str(rest.field(status, "context")),
        app_id=None,
        status="pending" if state == "pending" else "completed",
        conclusion=state,
        started_at=status.get("created_at"),
        completed_at=status.get("updated_at"),
    )


def _permissions(granted: Mapping[str, str]) -> frozenset[str]:
    named = (
        f"{name}:{word}" for name, level in granted.items() for word, rank in _RANK.items() if rank <= _RANK.get(level, 0)
    )
    return frozenset(named)


def _not_offered(answer: ForgeAnswer) -> bool:
    """A plan without branch rules cannot have any: the forge says "Upgrade to …", and that is an answer."""
    return answer.status == 403 and answer.message.startswith("Upgrade to ")


def _listed(page: Any) -> list[Any]:
    if not isinstance(page, list):
        raise Unavailable("answer_malformed", "the forge's answer is no list")
    return page


def _path(full_name: str) -> str:
    owner, slash, name = full_name.partition("/")
    ensure(bool(owner and slash and name) and "/" not in name, "a repository is named owner/name")
    return f"{quote(owner, safe='')}/{quote(name, safe='')}"
