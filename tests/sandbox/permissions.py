"""Which permission each operation asks of an installation token.

Source: GitHub's page "Permissions required for GitHub Apps", and the `x-accepted-github-permissions` header of public
recordings (for example octokit/fixtures). Each operation has alternatives; one of them must be held whole.
"""

Need = dict[str, str]
LEVELS = {"read": 1, "write": 2, "admin": 3}

R = "/repos/{owner}/{repo}"
METADATA: tuple[Need, ...] = ({"metadata": "read"},)
CONTENTS_READ: tuple[Need, ...] = ({"contents": "read"},)
CONTENTS_WRITE: tuple[Need, ...] = ({"contents": "write"}, {"contents": "write", "workflows": "write"})
CHECKS_READ: tuple[Need, ...] = ({"checks": "read"},)
CHECKS_WRITE: tuple[Need, ...] = ({"checks": "write"},)
PULLS_READ: tuple[Need, ...] = ({"pull_requests": "read"},)
PULLS_WRITE: tuple[Need, ...] = ({"pull_requests": "write"},)
TALK_READ: tuple[Need, ...] = ({"issues": "read"}, {"pull_requests": "read"})
TALK_WRITE: tuple[Need, ...] = ({"issues": "write"}, {"pull_requests": "write"})
ADMIN_READ: tuple[Need, ...] = ({"administration": "read"},)
ADMIN_WRITE: tuple[Need, ...] = ({"administration": "write"},)

TABLE: dict[tuple[str, str], tuple[Need, ...]] = {
    ("GET", R): METADATA,
    ("GET", f"{R}/collaborators/{{username}}/permission"): METADATA,
    ("GET", f"{R}/branches"): CONTENTS_READ,
    ("GET", f"{R}/branches/{{branch}}"): CONTENTS_READ,
    ("GET", f"{R}/branches/{{branch}}/protection"): ADMIN_READ,
    ("PUT", f"{R}/branches/{{branch}}/protection"): ADMIN_WRITE,
    ("GET", f"{R}/branches/{{branch}}/protection/required_status_checks"): ADMIN_READ,
    ("GET", f"{R}/rules/branches/{{branch}}"): METADATA,
    ("GET", f"{R}/rulesets"): METADATA,
    ("GET", f"{R}/rulesets/{{ruleset_id}}"): METADATA,
    ("POST", f"{R}/rulesets"): ADMIN_WRITE,
    ("GET", f"{R}/git/ref/{{ref}}"): CONTENTS_READ,
    ("GET", f"{R}/git/matching-refs/{{ref}}"): CONTENTS_READ,
    ("POST", f"{R}/git/refs"): CONTENTS_WRITE,
    ("PATCH", f"{R}/git/refs/{{ref}}"): CONTENTS_WRITE,
    ("DELETE", f"{R}/git/refs/{{ref}}"): CONTENTS_WRITE,
    ("GET", f"{R}/git/commits/{{commit_sha}}"): CONTENTS_READ,
    ("POST", f"{R}/git/commits"): CONTENTS_WRITE,
    ("POST", f"{R}/git/trees"): CONTENTS_WRITE,
    ("POST", f"{R}/merges"): CONTENTS_WRITE,
    ("GET", f"{R}/commits/{{ref}}"): CONTENTS_READ,
    ("GET", f"{R}/compare/{{basehead}}"): CONTENTS_READ,
    ("GET", f"{R}/commits/{{commit_sha}}/pulls"): PULLS_READ,
    ("GET", f"{R}/commits/{{ref}}/check-runs"): CHECKS_READ,
    ("GET", f"{R}/commits/{{ref}}/check-suites"): CHECKS_READ,
    ("POST", f"{R}/check-suites"): CHECKS_WRITE,
    ("GET", f"{R}/check-suites/{{check_suite_id}}"): CHECKS_READ,
    ("POST", f"{R}/check-runs"): CHECKS_WRITE,
    ("GET", f"{R}/check-runs/{{check_run_id}}"): CHECKS_READ,
    ("PATCH", f"{R}/check-runs/{{check_run_id}}"): CHECKS_WRITE,
    ("POST", f"{R}/check-runs/{{check_run_id}}/rerequest"): CHECKS_WRITE,
    ("GET", f"{R}/commits/{{ref}}/status"): ({"statuses": "read"},),
    ("GET", f"{R}/commits/{{ref}}/statuses"): ({"statuses": "read"},),
    ("POST", f"{R}/statuses/{{sha}}"): ({"statuses": "write"},),
    ("GET", f"{R}/pulls"): PULLS_READ,
    ("POST", f"{R}/pulls"): PULLS_WRITE,
    ("GET", f"{R}/pulls/{{pull_number}}"): PULLS_READ,
    ("PATCH", f"{R}/pulls/{{pull_number}}"): PULLS_WRITE,
    ("GET", f"{R}/pulls/{{pull_number}}/merge"): CONTENTS_READ,
    ("PUT", f"{R}/pulls/{{pull_number}}/merge"): CONTENTS_WRITE,
    ("GET", f"{R}/pulls/{{pull_number}}/files"): PULLS_READ,
    ("GET", f"{R}/pulls/{{pull_number}}/commits"): PULLS_READ,
    ("GET", f"{R}/pulls/{{pull_number}}/reviews"): PULLS_READ,
    ("POST", f"{R}/pulls/{{pull_number}}/reviews"): PULLS_WRITE,
    ("PUT", f"{R}/pulls/{{pull_number}}/update-branch"): PULLS_WRITE,
    ("GET", f"{R}/issues/{{issue_number}}/comments"): TALK_READ,
    ("POST", f"{R}/issues/{{issue_number}}/comments"): TALK_WRITE,
    ("PATCH", f"{R}/issues/comments/{{comment_id}}"): TALK_WRITE,
}


def holds(granted: dict[str, str], need: Need) -> bool:
    """Whether a token with these permissions has every one of a need, at its level or above."""
    return all(name == "metadata" or _level(granted.get(name)) >= LEVELS[level] for name, level in need.items())


def allowed(granted: dict[str, str], method: str, route: str) -> bool:
    """Whether the operation is open to a token with these permissions; an unlisted operation is not."""
    return any(holds(granted, need) for need in TABLE.get((method, route), ()))


def accepted(method: str, route: str) -> str:
    """The value of `x-accepted-github-permissions`: alternatives by semicolon, each a list by comma."""
    needs = TABLE.get((method, route), ())
    return "; ".join(",".join(f"{name}={level}" for name, level in need.items()) for need in needs)


def _level(name: str | None) -> int:
    return LEVELS.get(name or "", 0)
