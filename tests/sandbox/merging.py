"""Merging a pull request: by merge commit, squash or rebase, with the refusals that GitHub gives in their order."""

from dataclasses import dataclass

from tests.sandbox import moved
from tests.sandbox.auth import Caller
from tests.sandbox.deliveries import Courier
from tests.sandbox.demands import demands_on
from tests.sandbox.events import Announcer
from tests.sandbox.gitdir import GitDir, GitFailed, Signature
from tests.sandbox.reply import Refused
from tests.sandbox.rules import approvals, check_state, is_behind, judge_merge, merge_message
from tests.sandbox.shape_pulls import Measured
from tests.sandbox.world import Json, Owner, Pull, Repository, World

BASE_MODIFIED = "Base branch was modified. Review and try the merge again."
HEAD_MODIFIED = "Head branch was modified. Review and try the merge again."


def signature_of(owner: Owner, now_ms: int) -> Signature:
    return Signature(owner.login, f"{owner.id}+{owner.login}@users.noreply.github.com", now_ms // 1000)


@dataclass(frozen=True)
class Merge:
    """One wish to merge, with everything it needs."""

    courier: Courier
    repository: Repository
    pull: Pull
    caller: Caller
    actor: Owner
    body: Json

    @property
    def world(self) -> World:
        return self.courier.world

    @property
    def git(self) -> GitDir:
        return GitDir(self.repository.path)

    @property
    def method(self) -> str:
        return str(self.body.get("merge_method", "merge"))


def merge(wish: Merge) -> str:
    """Merges and returns the sha that did it; every refusal is a `Refused` with GitHub's status and words."""
    pull, git, ref = wish.pull, wish.git, f"refs/heads/{wish.pull.base_ref}"
    _admit(wish)
    tip = git.tip(ref)
    if tip is None:
        raise Refused(404, "Not Found")
    landed = _build(wish, tip)
    try:
        git.move(ref, landed, tip)
    except GitFailed:
        raise Refused(405, BASE_MODIFIED) from None
    moved.record_merge(pull, landed, wish.actor, wish.world.clock())
    moved.settle(wish.courier, wish.repository, wish.actor)
    Announcer(wish.courier, wish.repository, wish.actor).pull_request("closed", pull)
    return landed


def _admit(wish: Merge) -> None:
    pull = wish.pull
    if pull.merged or pull.state == "closed":
        raise Refused(405, "Pull Request is not mergeable")
    if pull.draft:
        raise Refused(405, "Pull Request is still a draft")
    if wish.body.get("sha") not in (None, pull.head_sha):
        raise Refused(409, HEAD_MODIFIED)
    if not wish.repository.allow.get(wish.method, False):
        names = {"merge": "Merge commits", "squash": "Squash merges", "rebase": "Rebase merges"}
        raise Refused(405, f"{names.get(wish.method, wish.method)} are not allowed on this repository.")
    violations = judge_merge(wish.repository, wish.git, wish.caller, pull, wish.method)
    if violations:
        raise Refused(405, merge_message(violations))


def _build(wish: Merge, tip: str) -> str:
    pull, git = wish.pull, wish.git
    tree = git.merge_tree(tip, pull.head_sha)
    if tree is None:
        raise Refused(405, "Pull Request is not mergeable")
    who = signature_of(wish.actor, wish.world.clock())
    owner = pull.head_repository.owner.login
    if wish.method == "merge":
        title = wish.body.get("commit_title") or f"Merge pull request #{pull.number} from {owner}/{pull.head_ref}"
        message = f"{title}\n\n{wish.body.get('commit_message', pull.title)}".rstrip()
        return git.commit_tree(tree, [tip, pull.head_sha], message, who)
    if wish.method == "squash":
        title = wish.body.get("commit_title") or f"{pull.title} (#{pull.number})"
        message = f"{title}\n\n{wish.body.get('commit_message', '')}".rstrip()
        author = git.commit(pull.head_sha).author
        return git.commit_tree(tree, [tip], message, Signature(author.name, author.email, who.at_s), who)
    return _rebase(git, tip, pull.head_sha, who)


def _rebase(git: GitDir, tip: str, head: str, committer: Signature) -> str:
    """Replays the commits of the head onto the tip, one by one, each with its own author."""
    for facts in git.log("--reverse", "--no-merges", f"{tip}..{head}"):
        carrier = git.commit_tree(git.commit(tip).tree, facts.parents[:1], "carrier", committer)
        tree = git.merge_tree(carrier, facts.sha)
        if tree is None:
            raise Refused(405, "This branch can't be rebased")
        tip = git.commit_tree(tree, [tip], facts.message, facts.author, committer)
    return tip


def measure(world: World, repository: Repository, pull: Pull) -> Measured:
    """What a single read of a pull request shows; makes the test merge, unless it is still being computed."""
    git = GitDir(repository.path)
    files = git.changes(git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha, pull.head_sha)
    mergeable, state = _mergeability(world, repository, git, pull)
    return Measured(
        mergeable=mergeable,
        mergeable_state=state,
        commits=git.count(f"{pull.base_sha}..{pull.head_sha}"),
        changed_files=len(files),
        additions=sum(change.additions for change in files),
        deletions=sum(change.deletions for change in files),
    )


def _mergeability(world: World, repository: Repository, git: GitDir, pull: Pull) -> tuple[bool | None, str]:
    if pull.state == "closed":
        return (None, "unknown")
    if pull.reads_without_mergeable > 0:
        pull.reads_without_mergeable -= 1
        return (None, "unknown")
    tip = git.tip(f"refs/heads/{pull.base_ref}")
    tree = git.merge_tree(tip, pull.head_sha) if tip is not None else None
    if tip is None or tree is None:
        pull.merge_commit_sha = None
        return (False, "dirty")
    if pull.merge_commit_sha is None:
        who = Signature("GitHub", "noreply@github.com", world.clock() // 1000)
        message = f"Merge {pull.head_sha} into {tip}"
        pull.merge_commit_sha = git.commit_tree(tree, [tip, pull.head_sha], message, who)
        git.move(f"refs/pull/{pull.number}/merge", pull.merge_commit_sha)
    return (True, _mergeable_state(repository, git, pull))


def _mergeable_state(repository: Repository, git: GitDir, pull: Pull) -> str:
    """A hint, as on the real thing; nobody should decide on it."""
    if pull.draft:
        return "draft"
    binding = demands_on(repository, f"refs/heads/{pull.base_ref}", Caller(), "merge")
    if any(demands.strict for demands in binding) and is_behind(git, pull):
        return "behind"
    words = [check_state(repository, pull.head_sha, check) for demands in binding for check in demands.checks]
    if any(word != "passing" for word in words) or any(approvals(pull) < d.approvals for d in binding):
        return "blocked"
    bad = any(r.suite.head_sha == pull.head_sha and r.conclusion == "failure" for r in repository.runs)
    return "unstable" if bad else "clean"
