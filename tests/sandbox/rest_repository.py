"""Operations about a repository, its branches, its protection and its rulesets."""

from typing import Any

from tests.sandbox import shape, shape_git, shape_repository
from tests.sandbox.demands import bypasses, classic_of, rulesets_of
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.reply import Answer, Refused, not_found, unprocessable
from tests.sandbox.world import Json, Protection, RequiredCheck, Ruleset

R = "/repos/{owner}/{repo}"


@operation("GET", R)
def get_repository(call: Call) -> Json:
    return shape_repository.full(call.base, call.repository)


@operation("GET", f"{R}/collaborators/{{username}}/permission")
def get_permission(call: Call) -> Json:
    """What a person may do here; an account that was never heard of is a 404."""
    login = call.args["username"]
    known = call.world.owners.get(login.lower())
    if known is None:
        raise not_found()
    role = call.repository.roles.get(login.lower(), "write")
    return {"permission": role, "role_name": role, "user": shape.user(call.base, known)}


def branch_tip(call: Call, branch: str) -> str:
    """The tip of a branch; a missing one raises `Refused(404)`."""
    sha = call.git.tip(f"refs/heads/{branch}")
    if sha is None:
        raise Refused(404, "Branch not found")
    return sha


def _protected(call: Call, branch: str) -> bool:
    known = call.repository
    return classic_of(known, branch) is not None or bool(rulesets_of(known, f"refs/heads/{branch}"))


@operation("GET", f"{R}/branches")
def list_branches(call: Call) -> Collection:
    tips = [(ref.removeprefix("refs/heads/"), sha) for ref, sha in call.git.refs().items() if "refs/heads/" in ref]
    if "protected" in call.query:
        tips = [(name, sha) for name, sha in tips if _protected(call, name) == (call.query["protected"] == "true")]

    def short(tip: tuple[str, str]) -> Json:
        url = f"{shape_repository.api_url(call.base, call.repository)}/commits/{tip[1]}"
        return {"name": tip[0], "commit": {"sha": tip[1], "url": url}, "protected": _protected(call, tip[0])}

    return Collection(tips, short)


@operation("GET", f"{R}/branches/{{branch}}")
def get_branch(call: Call) -> Any:
    branch = call.args["branch"]
    if branch in call.repository.former_branches:
        now = call.repository.former_branches[branch]
        where = f"{call.base}/repositories/{call.repository.id}/branches/{now}"
        return Answer(301, {"message": "Moved Permanently", "url": where}, {"Location": where})
    url = f"{shape_repository.api_url(call.base, call.repository)}/branches/{branch}"
    facts = call.git.commit(branch_tip(call, branch))
    protected = _protected(call, branch)
    return {
        "name": branch,
        "commit": shape_git.commit(call.base, call.repository, facts),
        "_links": {"self": url, "html": f"{call.base}/{call.repository.full_name}/tree/{branch}"},
        "protected": protected,
        "protection": shape_repository.protection_summary(classic_of(call.repository, branch), protected),
        "protection_url": f"{url}/protection",
    }


def _classic(call: Call) -> Protection:
    branch_tip(call, call.args["branch"])
    rules = classic_of(call.repository, call.args["branch"])
    if rules is None:
        raise Refused(404, "Branch not protected")
    return rules


@operation("GET", f"{R}/branches/{{branch}}/protection")
def get_protection(call: Call) -> Json:
    return shape_repository.protection(call.base, call.repository, call.args["branch"], _classic(call))


@operation("GET", f"{R}/branches/{{branch}}/protection/required_status_checks")
def get_required_checks(call: Call) -> Json:
    rules = _classic(call)
    if rules.required_checks is None:
        raise Refused(404, "Required status checks not enabled")
    return shape_repository.status_check_policy(call.base, call.repository, call.args["branch"], rules)


@operation("PUT", f"{R}/branches/{{branch}}/protection")
def put_protection(call: Call) -> Json:
    branch = call.args["branch"]
    branch_tip(call, branch)
    for name in ("required_status_checks", "enforce_admins", "required_pull_request_reviews", "restrictions"):
        if name not in call.body:
            raise unprocessable(f'Invalid request.\n\n"{name}" wasn\'t supplied.')
    rules = call.repository.protections[branch] = protection_of(call.body)
    return shape_repository.protection(call.base, call.repository, branch, rules)


def protection_of(body: Json) -> Protection:
    """Classic protection from the body that sets it."""
    wanted, reviews = body.get("required_status_checks"), body.get("required_pull_request_reviews")
    checks: list[RequiredCheck] | None = None
    if wanted is not None:
        listed = wanted.get("checks") or [{"context": context} for context in wanted.get("contexts", [])]
        checks = [RequiredCheck(c["context"], None if c.get("app_id") == -1 else c.get("app_id")) for c in listed]
    return Protection(
        required_checks=checks,
        strict=bool(wanted and wanted.get("strict")),
        enforce_admins=bool(body.get("enforce_admins")),
        pull_request=reviews is not None,
        approvals=(reviews or {}).get("required_approving_review_count", 0),
        linear_history=bool(body.get("required_linear_history")),
        allow_force_pushes=bool(body.get("allow_force_pushes")),
        allow_deletions=bool(body.get("allow_deletions")),
    )


@operation("GET", f"{R}/rules/branches/{{branch}}")
def rules_for_branch(call: Call) -> Collection:
    """The active rules of all rulesets for this branch, whether or not it exists."""
    ref = f"refs/heads/{call.args['branch']}"
    pairs = [(ruleset, rule) for ruleset in rulesets_of(call.repository, ref) for rule in ruleset.rules]
    return Collection(pairs, lambda pair: shape_repository.rule_of_branch(call.repository, *pair))


@operation("GET", f"{R}/rulesets")
def list_rulesets(call: Call) -> Collection:
    return Collection(
        call.repository.rulesets, lambda one: shape_repository.ruleset(call.base, call.repository, one, False)
    )


@operation("GET", f"{R}/rulesets/{{ruleset_id}}")
def get_ruleset(call: Call) -> Json:
    found = next((r for r in call.repository.rulesets if r.id == call.number("ruleset_id")), None)
    if found is None:
        raise not_found()
    shown = shape_repository.ruleset(call.base, call.repository, found, True)
    always, in_pull_requests = (bypasses(found, call.caller, road) for road in ("push", "merge"))
    shown["current_user_can_bypass"] = "always" if always else "pull_requests_only" if in_pull_requests else "never"
    if not call.caller.may("administration", "write"):
        del shown["bypass_actors"]
    return shown


@operation("POST", f"{R}/rulesets")
def create_ruleset(call: Call) -> Answer:
    name, enforcement = call.wanted("name", "enforcement")
    made = Ruleset(
        id=call.world.next_id(),
        name=name,
        rules=call.body.get("rules", []),
        conditions=call.body.get("conditions") or {"ref_name": {"include": [], "exclude": []}},
        bypass_actors=call.body.get("bypass_actors", []),
        created_ms=call.world.clock(),
        enforcement=enforcement,
        target=call.body.get("target", "branch"),
    )
    call.repository.rulesets.append(made)
    return Answer(201, shape_repository.ruleset(call.base, call.repository, made, True))
