"""What is announced to Apps, to which of them, and in which form.

An App hears what it subscribed to, in repositories of its installation. `check_suite.requested` and
`check_run.rerequested` go to the App they are for only; that is GitHub's documented rule.
"""

from tests.sandbox import shape, shape_checks, shape_git, shape_pulls, shape_repository
from tests.sandbox.deliveries import Courier
from tests.sandbox.gitdir import ZERO, GitDir
from tests.sandbox.permissions import holds
from tests.sandbox.rules import Update
from tests.sandbox.world import (
    App,
    CheckRun,
    CheckSuite,
    Comment,
    Installation,
    Json,
    Owner,
    Pull,
    Repository,
    Review,
    Status,
)

LONGEST_PUSH = 20
KEPT_OF_SUITE = (
    *("id", "node_id", "head_branch", "head_sha", "status", "conclusion", "url", "before", "after"),
    *("pull_requests", "app", "created_at", "updated_at"),
)


class Announcer:
    """Builds the payloads of one repository's events for one actor, and hands them to the courier."""

    def __init__(self, courier: Courier, repository: Repository, sender: Owner) -> None:
        self.courier, self.world = courier, courier.world
        self.repository, self.sender = repository, sender
        self.base = courier.world.base_url
        self.git = GitDir(repository.path)

    def announce(self, event: str, body: Json, only: App | None = None) -> None:
        """One event to every App that subscribed to it, or to the one App it is for."""
        for app in list(self.world.apps.values()):
            installation = self.world.installation_of(app, self.repository)
            if installation is None or event not in app.events or (only is not None and app is not only):
                continue
            payload = {**body, **self._surroundings(installation, body)}
            self.courier.send(app, event, payload, self.repository.id, installation.id)

    def _surroundings(self, installation: Installation, body: Json) -> Json:
        owner = self.repository.owner
        found: Json = {
            "repository": body.get("repository", shape_repository.repository(self.base, self.repository)),
            "sender": shape.user(self.base, self.sender),
            "installation": {
                "id": installation.id,
                "node_id": shape.node_id("IntegrationInstallation", installation.id),
            },
        }
        if owner.kind == "Organization":
            found["organization"] = organization(self.base, owner)
        return found

    def push(self, update: Update) -> None:
        created, deleted = update.old == ZERO, update.new == ZERO
        commits = [] if deleted else self.git.log(self._span(update), f"-{LONGEST_PUSH}")[::-1]
        forced = not created and not deleted and not self.git.is_ancestor(update.old, update.new)
        shown = [shape_git.pushed_commit(self.base, self.repository, self.git, facts) for facts in commits]
        head = None if deleted else self.git.commit(self.git.commit_sha(update.new) or update.new)
        name = f"{self.base}/{self.repository.full_name}/compare/{update.old[:12]}...{update.new[:12]}"
        body: Json = {
            "ref": update.ref,
            "before": update.old,
            "after": update.new,
            "base_ref": None,
            "created": created,
            "deleted": deleted,
            "forced": forced,
            "compare": name,
            "commits": shown,
            "head_commit": head and shape_git.pushed_commit(self.base, self.repository, self.git, head),
            "pusher": {"name": self.sender.login, "email": f"{self.sender.login}@users.noreply.github.com"},
            "repository": self._pushed_repository(),
        }
        self.announce("push", body)

    def _span(self, update: Update) -> str:
        if update.old != ZERO:
            return f"{update.old}..{update.new}"
        default = f"refs/heads/{self.repository.default_branch}"
        known = self.git.tip(default)
        return update.new if known is None or update.ref == default else f"{known}..{update.new}"

    def _pushed_repository(self) -> Json:
        owner = {**shape.user(self.base, self.repository.owner), "name": self.repository.owner.login, "email": None}
        at_s = self.repository.created_ms // 1000
        plain = shape_repository.repository(self.base, self.repository)
        return {
            **plain,
            "owner": owner,
            "created_at": at_s,
            "pushed_at": self.world.clock() // 1000,
            "stargazers": 0,
            "master_branch": self.repository.default_branch,
        }

    def pull_request(self, action: str, pull: Pull, **more: object) -> None:
        shown = shape_pulls.full(self.base, self.repository, pull, shape_pulls.Measured(None, "unknown", 1, 1, 0, 0))
        self.announce("pull_request", {"action": action, "number": pull.number, "pull_request": shown, **more})

    def issue_comment(self, pull: Pull, comment: Comment) -> None:
        """A new comment; a comment on a pull request is one on its issue."""
        url = f"{shape_repository.api_url(self.base, self.repository)}"
        issue = {
            "id": pull.id,
            "number": pull.number,
            "title": pull.title,
            "state": pull.state,
            "body": pull.body,
            "user": shape.user(self.base, pull.user),
            "url": f"{url}/issues/{pull.number}",
            "html_url": f"{self.base}/{self.repository.full_name}/pull/{pull.number}",
            "pull_request": {"url": f"{url}/pulls/{pull.number}"},
        }
        shown = shape_pulls.comment(self.base, self.repository, comment)
        self.announce("issue_comment", {"action": "created", "issue": issue, "comment": shown})

    def review(self, pull: Pull, review: Review) -> None:
        shown = shape_pulls.review(self.base, self.repository, pull, review)
        lower = {**shown, "state": review.state.lower()}
        simple = shape_pulls.simple(self.base, self.repository, pull)
        self.announce("pull_request_review", {"action": "submitted", "review": lower, "pull_request": simple})

    def check_suite(self, action: str, suite: CheckSuite) -> None:
        shown = shape_checks.check_suite(self.base, self.repository, self.git, suite)
        del shown["repository"]
        self.announce(
            "check_suite", {"action": action, "check_suite": shown}, suite.app if action != "completed" else None
        )

    def check_run(self, action: str, run: CheckRun) -> None:
        shown = shape_checks.check_run(self.base, self.repository, run)
        suite = shape_checks.check_suite(self.base, self.repository, self.git, run.suite)
        shown["check_suite"] = {name: suite[name] for name in KEPT_OF_SUITE}
        only = run.suite.app if action == "rerequested" else None
        self.announce("check_run", {"action": action, "check_run": shown}, only)

    def status(self, status: Status) -> None:
        facts = self.git.commit(status.sha)
        tips = {ref: sha for ref, sha in self.git.refs().items() if ref.startswith("refs/heads/")}
        url = shape_repository.api_url(self.base, self.repository)
        branches = [
            {
                "name": ref.removeprefix("refs/heads/"),
                "commit": {"sha": sha, "url": f"{url}/commits/{sha}"},
                "protected": False,
            }
            for ref, sha in tips.items()
            if sha == status.sha
        ]
        shown = shape_checks.simple_status(self.base, self.repository, status)
        kept = ["id", "avatar_url", "state", "description", "target_url", "context", "created_at", "updated_at"]
        body: Json = {name: shown[name] for name in kept}
        body.update(sha=status.sha, name=self.repository.full_name, branches=branches)
        self.announce("status", {**body, "commit": shape_git.commit(self.base, self.repository, facts)})


def organization(base: str, owner: Owner) -> Json:
    url = f"{base}/orgs/{owner.login}"
    return {
        "login": owner.login,
        "id": owner.id,
        "node_id": shape.node_id("Organization", owner.id),
        "url": url,
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events",
        "hooks_url": f"{url}/hooks",
        "issues_url": f"{url}/issues",
        "members_url": f"{url}/members{{/member}}",
        "public_members_url": f"{url}/public_members{{/member}}",
        "avatar_url": f"{base}/avatars/u/{owner.id}?v=4",
        "description": None,
    }


def wants_suites(app: App) -> bool:
    """Whether GitHub opens check suites for this App by itself: it may write checks."""
    return holds(app.permissions, {"checks": "write"})
