"""The forge is asked once, for one repository, and its refusals keep their names."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import responses

from pipeline.decisions import Method
from pipeline.errors import InvariantBroken, Unavailable
from pipeline.facts import Reviews
from tests.workers.town import HEAD, NOW, PERMISSIONS, Town
from workers.forge import AppKey, Forge, Token, app_slug, installation_of
from workers.merge_api import Merged, MergeRefusal, MergeRefused, MergeUnclear, merge
from workers.rest import ForgeAnswer

PRIMARY = {
    "x-ratelimit-remaining": "0",
    "x-ratelimit-reset": "1700000600",
    "date": "Tue, 14 Nov 2023 22:13:20 GMT",
}
BODY = {"title": "A change", "body": "", "head_ref": HEAD, "base": "main"}


def test_a_token_reaches_one_repository_with_the_named_permissions(town: Town) -> None:
    other = town.github.repository("acme/other", files={"a": "1\n"})

    forge = town.forge(contents="read", metadata="read")

    assert forge.token.permissions == {"contents:read", "metadata:read"}
    assert forge.token.expires_at % 1000 == 0
    assert forge.repository().id == town.repo.id
    stranger = Forge(town.key, forge.token, "acme/other", other.id)
    with pytest.raises(ForgeAnswer) as refusal:
        stranger.ruleset_rules("main")
    stranger.close()
    assert refusal.value.status in {403, 404}


def test_a_permission_that_was_not_granted_is_refused_by_name(town: Town) -> None:
    with pytest.raises(ForgeAnswer) as refusal:
        town.forge(workflows="write")

    assert refusal.value.code == "unprocessable"


def test_a_token_and_a_key_do_not_show_themselves(town: Town) -> None:
    forge = town.forge()

    assert forge.token.secret not in repr(forge.token)
    assert "PRIVATE" not in repr(town.key)


def test_a_token_is_fresh_until_five_minutes_before_its_end(town: Town) -> None:
    forge = town.forge()
    end = forge.token.expires_at

    assert forge.fresh(end - 300_000)
    assert not forge.fresh(end - 299_999)


def test_the_app_knows_its_slug_and_its_installation(town: Town) -> None:
    assert app_slug(town.key) == "mac-hub"
    installation, permissions = installation_of(town.key, town.repo.full_name)
    assert installation == town.hub.installation_id
    assert permissions["contents"] == "write"


def test_a_name_that_another_repository_took_over_is_not_ours(town: Town) -> None:
    forge = town.forge()
    usurped = Forge(town.key, forge.token, town.repo.full_name, town.repo.id + 1)

    with pytest.raises(Unavailable) as failure:
        usurped.repository()

    usurped.close()
    assert failure.value.code == "repository_replaced"


def test_a_missing_branch_is_not_an_unprotected_one(town: Town) -> None:
    with pytest.raises(ForgeAnswer) as refusal:
        town.forge().protection("absent")

    assert refusal.value.code == "not_found"


def test_opening_a_pull_request_twice_gives_the_same_one(town: Town) -> None:
    forge = town.forge()

    first = forge.open_pull_request(**BODY)
    second = forge.open_pull_request(**BODY)

    assert first.number == second.number
    assert len(town.repo.pull_requests) == 1
    assert (first.head_ref, first.head_sha, first.head_repository_id) == (HEAD, town.head, town.repo.id)


def test_an_opening_whose_answer_was_lost_is_found_again(town: Town) -> None:
    forge = town.forge()
    town.github.orders.add("POST", "*/pulls", status=502, body={"message": "Server Error"})

    with pytest.raises(Unavailable):
        forge.open_pull_request(**BODY)
    found = forge.open_pull_request(**BODY)

    assert [found.number] == list(town.repo.pull_requests)
    assert town.github.calls()["POST /repos/{owner}/{repo}/pulls"] == 2


def test_a_forks_branch_of_the_same_name_is_not_taken_for_ours(town: Town) -> None:
    fork = town.github.fork(town.repo, "mallory")
    fork.commit(on=HEAD, files={"evil.txt": "e\n"})
    town.repo.open_pull(f"mallory:{HEAD}", by="mallory")

    assert town.forge().find_pull_request(HEAD, "main") is None


def test_of_a_closed_and_an_open_pull_request_the_open_one_is_found(town: Town) -> None:
    first = town.repo.open_pull(HEAD)
    first.state = "closed"
    second = town.repo.open_pull(HEAD)

    found = town.forge().find_pull_request(HEAD, "main")

    assert found is not None
    assert (found.number, found.open) == (second.number, True)


def test_a_merge_by_a_person_is_not_ours(town: Town) -> None:
    number = town.repo.open_pull(HEAD).number
    sha = town.repo.merge(number)

    found = town.forge().pull_request(number)

    assert (found.merged, found.merged_by_app, found.merge_commit) == (True, False, sha)


def test_a_merge_by_our_app_is_known_as_ours(town: Town) -> None:
    number = town.repo.open_pull(HEAD).number
    forge = town.forge()

    result = merge(forge, number, town.head, Method.MERGE_API, title="Land", message="Body")

    assert result == Merged(town.repo.tip())
    found = forge.pull_request(number)
    assert (found.merged_by_app, found.merge_commit) == (True, town.repo.tip())


def test_a_merge_of_a_head_that_moved_is_refused(town: Town) -> None:
    number = town.repo.open_pull(HEAD).number
    town.repo.commit(on=HEAD, files={"late.txt": "l\n"})

    result = merge(town.forge(), number, town.head, Method.SQUASH_API, title="Land", message="")

    assert isinstance(result, MergeRefused)
    assert (result.kind, result.status) == (MergeRefusal.HEAD_MOVED, 409)
    assert town.repo.tip() == town.base


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (405, "Base branch was modified. Review and try the merge again.", MergeRefusal.BASE_MOVED),
        (405, "Repository rule violations found", MergeRefusal.NOT_ADMITTED),
        (403, "Resource not accessible by integration", MergeRefusal.NOT_ADMITTED),
        (409, "Head branch was modified. Review and try the merge again.", MergeRefusal.HEAD_MOVED),
    ],
)
def test_a_refused_merge_keeps_githubs_words(town: Town, status: int, message: str, kind: MergeRefusal) -> None:
    number = town.repo.open_pull(HEAD).number
    town.github.orders.add("PUT", "*/merge", apply=False, status=status, body={"message": message})

    result = merge(town.forge(), number, town.head, Method.MERGE_API, title="Land", message="")

    assert result == MergeRefused(kind, status, message)
    assert town.repo.tip() == town.base


def test_a_merge_that_answers_502_is_unclear_and_is_sent_once(town: Town) -> None:
    number = town.repo.open_pull(HEAD).number
    town.github.orders.add("PUT", "*/merge", status=502, body={"message": "Server Error"})

    result = merge(town.forge(), number, town.head, Method.MERGE_API, title="Land", message="")

    assert result == MergeUnclear("server_error")
    assert town.repo.tip() != town.base
    assert town.github.calls()["PUT /repos/{owner}/{repo}/pulls/{pull_number}/merge"] == 1


def test_a_method_of_our_own_does_not_go_through_the_merge_api(town: Town) -> None:
    with pytest.raises(InvariantBroken):
        merge(town.forge(), 1, town.head, Method.FAST_FORWARD, title="", message="")


def test_reviews_count_each_persons_last_word(town: Town) -> None:
    number = town.repo.open_pull(HEAD).number
    town.repo.review(number, "CHANGES_REQUESTED", by="ada")
    town.repo.review(number, "APPROVED", by="ada")
    town.repo.review(number, "APPROVED", by="bob")
    town.repo.review(number, "CHANGES_REQUESTED", by="bob")
    town.repo.review(number, "COMMENTED", by="ada")
    town.repo.review(number, "APPROVED", by="eve")
    town.repo.review(number, "DISMISSED", by="eve")

    assert town.forge().reviews(number, conversations=False) == Reviews(1, 1, 0)


@pytest.mark.parametrize(("association", "approvals"), [("MEMBER", 1), ("CONTRIBUTOR", 1), ("NONE", 0)])
def test_a_strangers_approval_does_not_count(association: str, approvals: int) -> None:
    review = {"user": {"id": 5}, "state": "APPROVED", "author_association": association}
    with responses.RequestsMock() as world:
        world.get("https://forge.invalid:443/repos/acme/hub/pulls/3/reviews", json=[review])

        assert _canned().reviews(3, conversations=False).approvals == approvals


def test_reading_side_by_side_never_swaps_answers(town: Town) -> None:
    shas = [town.repo.commit(on=f"many-{n}", files={f"{n}.txt": "x\n"}) for n in range(6)]
    for number, sha in enumerate(shas):
        town.ci.reports(town.repo, sha, f"job-{number}", "success")
    forge = town.forge()

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda n: forge.check_runs(shas[n % 6]), range(60)))

    assert [check.context for (check,) in answers] == [f"job-{n % 6}" for n in range(60)]


def _canned() -> Forge:
    """A forge against canned answers, for what only the real one would say."""
    key = AppKey("https://forge.invalid", 1, "unused")
    return Forge(key, Token("t", frozenset(PERMISSIONS), NOW), "acme/hub", 1)


@pytest.mark.parametrize(
    ("status", "headers", "message", "wait_ms"),
    [
        (403, PRIMARY, "API rate limit exceeded", 600_000),
        (429, {"retry-after": "7"}, "Too many requests", 7_000),
        (403, {"retry-after": "0"}, "You have exceeded a secondary rate limit", 1_000),
        (403, {}, "You have exceeded a secondary rate limit and have been temporarily blocked", 60_000),
    ],
)
def test_rate_limits_say_how_long_to_wait(status: int, headers: dict[str, str], message: str, wait_ms: int) -> None:
    with responses.RequestsMock() as world:
        world.get("https://forge.invalid:443/repos/acme/hub", json={"message": message}, status=status, headers=headers)
        with pytest.raises(Unavailable) as failure:
            _canned().repository()

        assert len(world.calls) == 1
    assert (failure.value.code, failure.value.retry_after_ms) == ("rate_limited", wait_ms)


def test_a_plain_403_is_no_rate_limit() -> None:
    with responses.RequestsMock() as world:
        world.get(
            "https://forge.invalid:443/repos/acme/hub",
            json={"message": "Resource not accessible by integration"},
            status=403,
            headers={"x-ratelimit-remaining": "4999"},
        )
        with pytest.raises(ForgeAnswer) as refusal:
            _canned().repository()

    assert refusal.value.code == "forbidden"


def test_a_plan_that_offers_no_rules_has_none() -> None:
    words = {"message": "Upgrade to GitHub Pro or make this repository public to enable this feature."}
    with responses.RequestsMock() as world:
        world.get("https://forge.invalid:443/repos/acme/hub/branches/main/protection", json=words, status=403)
        world.get("https://forge.invalid:443/repos/acme/hub/rules/branches/main", json=words, status=403)
        forge = _canned()

        assert forge.protection("main") is None
        assert forge.ruleset_rules("main") == ()


def test_a_next_page_on_another_host_is_not_followed() -> None:
    with responses.RequestsMock() as world:
        world.get(
            "https://forge.invalid:443/repos/acme/hub/rules/branches/main",
            json=[],
            headers={"link": '<https://elsewhere.invalid/x?page=2>; rel="next"'},
        )
        with pytest.raises(Unavailable) as failure:
            _canned().ruleset_rules("main")

    assert failure.value.code == "answer_malformed"


def test_open_conversations_are_counted_over_all_pages() -> None:
    def threads(resolved: list[bool], after: str | None) -> dict[str, object]:
        page = {"hasNextPage": after is not None, "endCursor": after}
        nodes = [{"isResolved": word} for word in resolved]
        return {"data": {"repository": {"pullRequest": {"reviewThreads": {"nodes": nodes, "pageInfo": page}}}}}

    with responses.RequestsMock() as world:
        world.get("https://forge.invalid:443/repos/acme/hub/pulls/3/reviews", json=[])
        world.post("https://forge.invalid:443/graphql", json=threads([True, False], "c1"))
        world.post("https://forge.invalid:443/graphql", json=threads([False], None))

        assert _canned().reviews(3, conversations=True).conversations_open == 2
