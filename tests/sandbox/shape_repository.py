"""Repositories, branches, protection and rulesets, as GitHub writes them."""

from tests.sandbox import shape
from tests.sandbox.world import Json, Protection, Repository, RequiredCheck, Ruleset

PAGES = (
    *("contributors", "deployments", "downloads", "events", "forks", "hooks", "languages", "merges", "stargazers"),
    *("subscribers", "subscription", "tags", "teams"),
)
TEMPLATES = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "statuses_url": "/statuses/{sha}",
    "trees_url": "/git/trees{/sha}",
}
COUNTS = (
    *("forks", "forks_count", "open_issues", "open_issues_count", "size", "stargazers_count", "watchers"),
    "watchers_count",
)
EVERYTHING = {"admin": True, "maintain": True, "push": True, "triage": True, "pull": True}


def api_url(base: str, known: Repository) -> str:
    return f"{base}/repos/{known.full_name}"


def repository(base: str, known: Repository) -> Json:
    """The form in lists, pull requests and webhooks (`repository`)."""
    url, html = api_url(base, known), f"{base}/{known.full_name}"
    host = base.partition("://")[2]
    return {
        "id": known.id,
        "node_id": shape.node_id("Repository", known.id),
        "name": known.name,
        "full_name": known.full_name,
        "private": known.private,
        "visibility": "private" if known.private else "public",
        "owner": shape.user(base, known.owner),
        "html_url": html,
        "description": None,
        "fork": known.parent is not None,
        "url": url,
        **{f"{page}_url": f"{url}/{page}" for page in PAGES},
        **{name: url + tail for name, tail in TEMPLATES.items()},
        "git_url": f"git://{host}/{known.full_name}.git",
        "ssh_url": f"git@{host}:{known.full_name}.git",
        "clone_url": f"{html}.git",
        "svn_url": html,
        "mirror_url": None,
        "homepage": None,
        "language": None,
        "license": None,
        "topics": [],
        "default_branch": known.default_branch,
        **dict.fromkeys(COUNTS, 0),
        **{f"has_{what}": what in ("issues", "projects", "downloads") for what in _FEATURES},
        "archived": False,
        "disabled": False,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "created_at": shape.instant(known.created_ms),
        "updated_at": shape.instant(known.created_ms),
        "pushed_at": shape.instant(known.created_ms),
        "permissions": EVERYTHING,
    }


_FEATURES = ("issues", "projects", "wiki", "pages", "downloads", "discussions")


def full(base: str, known: Repository) -> Json:
    """The form of a single repository (`full-repository`)."""
    parent = {} if known.parent is None else {
        "parent": repository(base, known.parent),
        "source": repository(base, known.parent),
    }
    return {
        **repository(base, known),
        "network_count": 0,
        "subscribers_count": 0,
        "allow_merge_commit": known.allow["merge"],
        "allow_squash_merge": known.allow["squash"],
        "allow_rebase_merge": known.allow["rebase"],
        "allow_update_branch": known.allow["update_branch"],
        "allow_auto_merge": False,
        "delete_branch_on_merge": False,
        **parent,
    }


def minimal(base: str, known: Repository) -> Json:
    """The form inside check suites and combined statuses (`minimal-repository`)."""
    return repository(base, known)


def check_list(checks: list[RequiredCheck]) -> Json:
    return {
        "contexts": [check.context for check in checks],
        "checks": [{"context": check.context, "app_id": check.app_id} for check in checks],
    }


def status_check_policy(base: str, known: Repository, branch: str, rules: Protection) -> Json:
    url = f"{api_url(base, known)}/branches/{branch}/protection/required_status_checks"
    checks = check_list(rules.required_checks or [])
    return {"url": url, "strict": rules.strict, **checks, "contexts_url": f"{url}/contexts"}


def protection(base: str, known: Repository, branch: str, rules: Protection) -> Json:
    """Classic protection in full (`branch-protection`); parts that are off are absent, as on the real thing."""
    url = f"{api_url(base, known)}/branches/{branch}/protection"
    shown: Json = {
        "url": url,
        "required_signatures": {"url": f"{url}/required_signatures", "enabled": rules.signatures},
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": rules.enforce_admins},
        "required_linear_history": {"enabled": rules.linear_history},
        "allow_force_pushes": {"enabled": rules.allow_force_pushes},
        "allow_deletions": {"enabled": rules.allow_deletions},
        "block_creations": {"enabled": False},
        "required_conversation_resolution": {"enabled": False},
        "lock_branch": {"enabled": False},
        "allow_fork_syncing": {"enabled": False},
    }
    if rules.required_checks is not None:
        shown["required_status_checks"] = status_check_policy(base, known, branch, rules)
    if rules.pull_request:
        shown["required_pull_request_reviews"] = {
            "url": f"{url}/required_pull_request_reviews",
            "dismiss_stale_reviews": False,
            "require_code_owner_reviews": False,
            "require_last_push_approval": False,
            "required_approving_review_count": rules.approvals,
        }
    return shown


def protection_summary(rules: Protection | None, protected: bool) -> Json:
    """The short `protection` member of a branch."""
    required = rules.required_checks if rules is not None else None
    level = "off" if required is None else ("everyone" if rules and rules.enforce_admins else "non_admins")
    checks = check_list(required or [])
    return {"enabled": protected, "required_status_checks": {"enforcement_level": level, **checks}}


def ruleset(base: str, known: Repository, rules: Ruleset, in_full: bool) -> Json:
    """A ruleset; lists leave rules, conditions and bypass actors out."""
    url = f"{api_url(base, known)}/rulesets/{rules.id}"
    shown: Json = {
        "id": rules.id,
        "name": rules.name,
        "target": rules.target,
        "source_type": "Repository",
        "source": known.full_name,
        "enforcement": rules.enforcement,
        "node_id": shape.node_id("RepositoryRuleset", rules.id),
        "_links": {"self": {"href": url}, "html": {"href": f"{base}/{known.full_name}/rules/{rules.id}"}},
        "created_at": shape.instant(rules.created_ms),
        "updated_at": shape.instant(rules.created_ms),
    }
    if in_full:
        shown.update(bypass_actors=rules.bypass_actors, conditions=rules.conditions, rules=rules.rules)
    return shown


def rule_of_branch(known: Repository, rules: Ruleset, rule: Json) -> Json:
    """One active rule as `rules/branches` lists it: the rule, and which ruleset it is from."""
    return {
        **rule,
        "ruleset_source_type": "Repository",
        "ruleset_source": known.full_name,
        "ruleset_id": rules.id,
    }
