"""The same landing through the forge's own doors: rules in its pre-receive, tokens over HTTP, answers that get lost."""

from collections.abc import Iterator

import pytest

from ledger.slot import LandSlot
from tests.workers.town import HEAD, Town
from workers.clone import Mirrors
from workers.clone import Remote as Place
from workers.land import Landing, MarkersAdmitted, land, marker_object, read_back, try_markers
from workers.mirror import Mirror
from workers.push import Pushed, RefusalKind, Refused, Unclear

AT = 1_700_000_100_000


@pytest.fixture
def mirror(town: Town) -> Iterator[Mirror]:
    forge = town.forge()
    remote = Place(town.repo.id, town.repo.clone_url, lambda: forge.token.secret)
    with Mirrors(town.home / "mirrors", town.git, max_bytes=10**9).open(remote) as opened:
        opened.fetch({"refs/heads/main": "refs/hub/tip", f"refs/heads/{HEAD}": "refs/hub/head"})
        yield opened


def _landing(town: Town, mirror: Mirror, slot: LandSlot) -> Landing:
    marker = marker_object(mirror, "int_1", town.head, b"signed\n", at_ms=AT)
    return Landing("int_1", slot.token, "main", town.base, town.head, marker)


def test_a_green_head_lands_where_its_check_is_required(town: Town, mirror: Mirror, slot: LandSlot) -> None:
    town.repo.ruleset(required_checks=[("ci/test", town.ci)], strict=True)
    town.ci.reports(town.repo, town.head, "ci/test", "success")

    assert land(slot, mirror, _landing(town, mirror, slot)) == Pushed()

    reading = read_back(mirror, "main", ["int_1"], now=AT)
    assert reading.sha == town.head == town.repo.tip()
    assert set(reading.markers) == {"int_1"}


def test_a_red_head_is_refused_by_the_rule_and_leaves_no_marker(town: Town, mirror: Mirror, slot: LandSlot) -> None:
    town.repo.ruleset(required_checks=[("ci/test", town.ci)], strict=True)
    town.ci.reports(town.repo, town.head, "ci/test", "failure")

    result = land(slot, mirror, _landing(town, mirror, slot))

    assert isinstance(result, Refused)
    assert result.kind is RefusalKind.RULE
    assert "GH013" in result.message
    assert town.repo.tip() == town.base
    assert not town.repo.refs("refs/mac/")


def test_a_push_that_landed_and_lost_its_answer_is_read_back(town: Town, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(town, mirror, slot)
    town.github.orders.add("POST", "*/git-receive-pack", drop=True)

    # The library under git repeats the request, and the repetition is refused: that is no refusal of the landing.
    assert land(slot, mirror, landing) == Unclear("remote_race")

    reading = read_back(mirror, "main", ["int_1"], now=AT)
    assert (reading.sha, reading.markers) == (town.head, {"int_1": landing.marker})


def test_a_push_that_never_arrived_is_unclear_too(town: Town, mirror: Mirror, slot: LandSlot) -> None:
    landing = _landing(town, mirror, slot)
    town.github.orders.add("POST", "*/git-receive-pack", apply=False, status=503)

    assert isinstance(land(slot, mirror, landing), Unclear)

    assert read_back(mirror, "main", ["int_1"], now=AT).markers == {}
    assert town.repo.tip() == town.base


def test_the_forge_admits_markers_and_keeps_no_probe(town: Town, mirror: Mirror) -> None:
    assert try_markers(mirror, "probe", town.base, at_ms=AT) == MarkersAdmitted()

    assert not town.repo.refs("refs/mac/")
