"""Operations on reviews and on issue comments (which is where pull requests are talked about)."""

from tests.sandbox import shape, shape_pulls
from tests.sandbox.endpoints import Call, Collection, operation
from tests.sandbox.events import Announcer
from tests.sandbox.reply import Answer, not_found, unprocessable
from tests.sandbox.rest_pulls import the_pull
from tests.sandbox.world import Comment, Json, Review

R = "/repos/{owner}/{repo}"
LONGEST_COMMENT = 65_536
STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


@operation("GET", f"{R}/pulls/{{pull_number}}/reviews")
def list_reviews(call: Call) -> Collection:
    pull = the_pull(call)
    return Collection(pull.reviews, lambda one: shape_pulls.review(call.base, call.repository, pull, one))


@operation("POST", f"{R}/pulls/{{pull_number}}/reviews")
def create_review(call: Call) -> Json:
    pull = the_pull(call)
    event = call.body.get("event", "PENDING")
    if event in ("APPROVE", "REQUEST_CHANGES") and pull.user is call.actor:
        verb = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable(f"Can not {verb} your own pull request")
    review = Review(
        id=call.world.next_id(),
        user=call.actor,
        state=STATES.get(event, "PENDING"),
        body=call.body.get("body", ""),
        commit_id=call.body.get("commit_id", pull.head_sha),
        submitted_ms=call.world.clock(),
    )
    pull.reviews.append(review)
    if event in STATES:
        Announcer(call.courier, call.repository, call.actor).review(pull, review)
    return shape_pulls.review(call.base, call.repository, pull, review)


def _comment(call: Call, one: Comment) -> Json:
    return shape_pulls.comment(call.base, call.repository, one)


@operation("GET", f"{R}/issues/{{issue_number}}/comments")
def list_comments(call: Call) -> Collection:
    pull = the_pull(call, "issue_number")
    comments = [c for c in call.repository.comments if c.number == pull.number]
    if "since" in call.query:
        comments = [c for c in comments if c.updated_ms >= shape.milliseconds(call.query["since"])]
    return Collection(comments, lambda one: _comment(call, one))


def _body(call: Call) -> str:
    (body,) = call.wanted("body")
    if len(body) > LONGEST_COMMENT:
        raise unprocessable(f"Body is too long (maximum is {LONGEST_COMMENT} characters)")
    return str(body)


@operation("POST", f"{R}/issues/{{issue_number}}/comments")
def create_comment(call: Call) -> Answer:
    pull, now_ms = the_pull(call, "issue_number"), call.world.clock()
    app = call.caller.acting_app
    one = Comment(call.world.next_id(), pull.number, call.actor, app, _body(call), now_ms, now_ms)
    call.repository.comments.append(one)
    Announcer(call.courier, call.repository, call.actor).issue_comment(pull, one)
    shown = _comment(call, one)
    return Answer(201, shown, {"Location": shown["url"]})


@operation("PATCH", f"{R}/issues/comments/{{comment_id}}")
def update_comment(call: Call) -> Json:
    found = next((c for c in call.repository.comments if c.id == call.number("comment_id")), None)
    if found is None:
        raise not_found()
    found.body, found.updated_ms = _body(call), call.world.clock()
    return _comment(call, found)
