"""Refs, commits, files and comparisons, as GitHub writes them."""

from tests.sandbox import shape
from tests.sandbox.gitdir import CommitFacts, FileChange, GitDir, Signature
from tests.sandbox.shape_repository import api_url
from tests.sandbox.world import Json, Repository

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LONGEST_PATCH = 20_000


def ref(base: str, known: Repository, name: str, sha: str, kind: str) -> Json:
    url = api_url(base, known)
    return {
        "ref": name,
        "node_id": shape.node_id("Ref", f"{known.id}:{name}"),
        "url": f"{url}/git/{name}",
        "object": {"sha": sha, "type": kind, "url": f"{url}/git/{kind}s/{sha}"},
    }


def signature(who: Signature) -> Json:
    return {"name": who.name, "email": who.email, "date": shape.instant(who.at_s * 1000)}


def verification(facts: CommitFacts) -> Json:
    """Signatures are recognised, never verified: no key is known here."""
    reason = "unknown_key" if facts.signed else "unsigned"
    return {"verified": False, "reason": reason, "signature": None, "payload": None, "verified_at": None}


def git_commit(base: str, known: Repository, facts: CommitFacts) -> Json:
    """A commit object (`git-commit`)."""
    url, html = api_url(base, known), f"{base}/{known.full_name}"
    return {
        "sha": facts.sha,
        "node_id": shape.node_id("Commit", facts.sha),
        "url": f"{url}/git/commits/{facts.sha}",
        "html_url": f"{html}/commit/{facts.sha}",
        "author": signature(facts.author),
        "committer": signature(facts.committer),
        "tree": {"sha": facts.tree, "url": f"{url}/git/trees/{facts.tree}"},
        "message": facts.message,
        "parents": [
            {"sha": p, "url": f"{url}/git/commits/{p}", "html_url": f"{html}/commit/{p}"} for p in facts.parents
        ],
        "verification": verification(facts),
    }


def commit(base: str, known: Repository, facts: CommitFacts) -> Json:
    """A commit with its place in the repository (`commit`), without files."""
    url, html = api_url(base, known), f"{base}/{known.full_name}"
    return {
        "sha": facts.sha,
        "node_id": shape.node_id("Commit", facts.sha),
        "commit": {
            "author": signature(facts.author),
            "committer": signature(facts.committer),
            "message": facts.message,
            "tree": {"sha": facts.tree, "url": f"{url}/git/trees/{facts.tree}"},
            "url": f"{url}/git/commits/{facts.sha}",
            "comment_count": 0,
            "verification": verification(facts),
        },
        "url": f"{url}/commits/{facts.sha}",
        "html_url": f"{html}/commit/{facts.sha}",
        "comments_url": f"{url}/commits/{facts.sha}/comments",
        "author": None,
        "committer": None,
        "parents": [
            {"sha": p, "url": f"{url}/commits/{p}", "html_url": f"{html}/commit/{p}"} for p in facts.parents
        ],
    }


def files(base: str, known: Repository, git: GitDir, older: str, newer: str) -> list[Json]:
    """The changed files between two trees, with patches where git has one."""
    pairs = zip(git.changes(older, newer), git.patches(older, newer), strict=True)
    return [_file(base, known, newer, change, patch) for change, patch in pairs]


def _file(base: str, known: Repository, newer: str, change: FileChange, patch: str) -> Json:
    url, html = api_url(base, known), f"{base}/{known.full_name}"
    where = f"{newer}/{change.path}"
    shown: Json = {
        "sha": change.blob,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{html}/blob/{where}",
        "raw_url": f"{html}/raw/{where}",
        "contents_url": f"{url}/contents/{change.path}?ref={newer}",
    }
    at = patch.find("@@")
    if at >= 0 and len(patch) - at <= LONGEST_PATCH:
        shown["patch"] = patch[at:].rstrip("\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if change.previous is not None:
        shown["previous_filename"] = change.previous
    return shown


def first_parent(facts: CommitFacts) -> str:
    """What a commit is compared with: its first parent, or the empty tree."""
    return facts.parents[0] if facts.parents else EMPTY_TREE


def commit_with_files(base: str, known: Repository, git: GitDir, facts: CommitFacts) -> Json:
    changed = files(base, known, git, first_parent(facts), facts.sha)
    added = sum(int(entry["additions"]) for entry in changed)
    removed = sum(int(entry["deletions"]) for entry in changed)
    stats = {"total": added + removed, "additions": added, "deletions": removed}
    return {**commit(base, known, facts), "stats": stats, "files": changed}


def pushed_commit(base: str, known: Repository, git: GitDir, facts: CommitFacts) -> Json:
    """A commit as the `push` event lists it, with its paths."""
    changes = git.changes(first_parent(facts), facts.sha)
    people = {
        role: {"name": who.name, "email": who.email, "date": shape.instant(who.at_s * 1000)}
        for role, who in (("author", facts.author), ("committer", facts.committer))
    }
    return {
        "id": facts.sha,
        "tree_id": facts.tree,
        "distinct": True,
        "message": facts.message,
        "timestamp": shape.instant(facts.committer.at_s * 1000),
        "url": f"{base}/{known.full_name}/commit/{facts.sha}",
        **people,
        "added": [c.path for c in changes if c.status == "added"],
        "removed": [c.path for c in changes if c.status == "removed"],
        "modified": [c.path for c in changes if c.status not in ("added", "removed")],
    }


def simple_commit(facts: CommitFacts) -> Json:
    """The head commit of a check suite (`simple-commit`)."""
    return {
        "id": facts.sha,
        "tree_id": facts.tree,
        "message": facts.message,
        "timestamp": shape.instant(facts.committer.at_s * 1000),
        "author": {"name": facts.author.name, "email": facts.author.email},
        "committer": {"name": facts.committer.name, "email": facts.committer.email},
    }


def comparison(base: str, known: Repository, git: GitDir, older: str, newer: str, *, page: list[CommitFacts]) -> Json:
    """`compare` of two commits that have a common ancestor; `page` is the part of the commits to list."""
    meeting = git.merge_base(older, newer) or older
    ahead, behind = git.count(f"{older}..{newer}"), git.count(f"{newer}..{older}")
    words = {(False, False): "identical", (True, False): "ahead", (False, True): "behind", (True, True): "diverged"}
    url, html = api_url(base, known), f"{base}/{known.full_name}"
    name = f"{older}...{newer}"
    return {
        "url": f"{url}/compare/{name}",
        "html_url": f"{html}/compare/{name}",
        "permalink_url": f"{html}/compare/{name}",
        "diff_url": f"{html}/compare/{name}.diff",
        "patch_url": f"{html}/compare/{name}.patch",
        "base_commit": commit(base, known, git.commit(older)),
        "merge_base_commit": commit(base, known, git.commit(meeting)),
        "status": words[(ahead > 0, behind > 0)],
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": [commit(base, known, facts) for facts in page],
        "files": files(base, known, git, meeting, newer),
    }
