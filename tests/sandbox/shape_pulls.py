"""Pull requests, reviews and issue comments, as GitHub writes them."""

from dataclasses import dataclass

from tests.sandbox import shape, shape_repository
from tests.sandbox.shape_repository import api_url
from tests.sandbox.world import Comment, Json, Pull, Repository, Review


@dataclass(frozen=True)
class Measured:
    """What git says about a pull request at the moment of asking. `mergeable` None: not computed yet."""

    mergeable: bool | None
    mergeable_state: str
    commits: int
    changed_files: int
    additions: int
    deletions: int


def _end(base: str, repository: Repository, ref: str, sha: str) -> Json:
    return {
        "label": f"{repository.owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": shape.user(base, repository.owner),
        "repo": shape_repository.repository(base, repository),
    }


def _urls(base: str, known: Repository, pull: Pull) -> tuple[Json, Json]:
    url = f"{api_url(base, known)}/pulls/{pull.number}"
    issue = f"{api_url(base, known)}/issues/{pull.number}"
    html = f"{base}/{known.full_name}/pull/{pull.number}"
    comments = f"{api_url(base, known)}/pulls/comments{{/number}}"
    statuses = f"{api_url(base, known)}/statuses/{pull.head_sha}"
    plain: Json = {
        "url": url,
        "html_url": html,
        "diff_url": f"{html}.diff",
        "patch_url": f"{html}.patch",
        "issue_url": issue,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": comments,
        "comments_url": f"{issue}/comments",
        "statuses_url": statuses,
    }
    names = {
        "self": url,
        "html": html,
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": comments,
        "commits": f"{url}/commits",
        "statuses": statuses,
    }
    return plain, {name: {"href": href} for name, href in names.items()}


def simple(base: str, known: Repository, pull: Pull) -> Json:
    """The form in lists (`pull-request-simple`)."""
    urls, links = _urls(base, known, pull)
    return {
        **urls,
        "id": pull.id,
        "node_id": shape.node_id("PullRequest", pull.id),
        "number": pull.number,
        "state": pull.state,
        "locked": False,
        "title": pull.title,
        "user": shape.user(base, pull.user),
        "body": pull.body,
        "created_at": shape.instant(pull.created_ms),
        "updated_at": shape.instant(pull.updated_ms),
        "closed_at": shape.maybe_instant(pull.closed_ms),
        "merged_at": shape.maybe_instant(pull.merged_ms),
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": None,
        "assignees": [],
        "requested_reviewers": [],
        "requested_teams": [],
        "labels": [],
        "milestone": None,
        "draft": pull.draft,
        "head": _end(base, pull.head_repository, pull.head_ref, pull.head_sha),
        "base": _end(base, known, pull.base_ref, pull.base_sha),
        "_links": links,
        "author_association": "CONTRIBUTOR",
        "auto_merge": None,
        "active_lock_reason": None,
    }


def full(base: str, known: Repository, pull: Pull, measured: Measured) -> Json:
    """The form of a single pull request (`pull-request`)."""
    comments = sum(1 for comment in known.comments if comment.number == pull.number)
    return {
        **simple(base, known, pull),
        "merged": pull.merged,
        "mergeable": measured.mergeable,
        "rebaseable": measured.mergeable,
        "mergeable_state": measured.mergeable_state,
        "merged_by": shape.user(base, pull.merged_by) if pull.merged_by else None,
        "comments": comments,
        "review_comments": 0,
        "maintainer_can_modify": False,
        "commits": measured.commits,
        "additions": measured.additions,
        "deletions": measured.deletions,
        "changed_files": measured.changed_files,
    }


def review(base: str, known: Repository, pull: Pull, one: Review) -> Json:
    url = f"{api_url(base, known)}/pulls/{pull.number}"
    html = f"{base}/{known.full_name}/pull/{pull.number}#pullrequestreview-{one.id}"
    return {
        "id": one.id,
        "node_id": shape.node_id("PullRequestReview", one.id),
        "user": shape.user(base, one.user),
        "body": one.body,
        "state": one.state,
        "html_url": html,
        "pull_request_url": url,
        "_links": {"html": {"href": html}, "pull_request": {"href": url}},
        "submitted_at": shape.instant(one.submitted_ms),
        "commit_id": one.commit_id,
        "author_association": "CONTRIBUTOR",
    }


def comment(base: str, known: Repository, one: Comment) -> Json:
    url = f"{api_url(base, known)}/issues"
    return {
        "id": one.id,
        "node_id": shape.node_id("IssueComment", one.id),
        "url": f"{url}/comments/{one.id}",
        "html_url": f"{base}/{known.full_name}/pull/{one.number}#issuecomment-{one.id}",
        "issue_url": f"{url}/{one.number}",
        "body": one.body,
        "user": shape.user(base, one.user),
        "created_at": shape.instant(one.created_ms),
        "updated_at": shape.instant(one.updated_ms),
        "author_association": "CONTRIBUTOR",
        "performed_via_github_app": shape.app(base, one.app) if one.app else None,
    }
