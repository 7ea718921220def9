"""`mac task stop|start|hold|release|retry|cancel|wave|accept|reject`: what operators order, each with its reason."""

import click

from pipeline.errors import Rejected
from pipeline.refusals import Refusal
from webhook import cli_show
from webhook.cli_client import HubClient

EVIDENCE_CHARS_MIN = 8


def _order(verb: str, help_text: str, *, reasoned: bool) -> click.Command:
    @click.command(verb, help=help_text)
    @click.argument("task")
    @click.option("--why", required=reasoned, help="The reason, which its history keeps.")
    @cli_show.hub_options
    def ordered(task: str, why: str | None, hub_url: str | None, token: str | None, as_json: bool) -> None:
        said = cli_show.client(hub_url, token).post(f"/v1/tasks/{task}/{verb}", {"why": why})
        cli_show.document(said, as_json=as_json)

    return ordered


def _on_evidence(verb: str, route: str, decision: str | None, help_text: str) -> click.Command:
    @click.command(verb, help=help_text)
    @click.argument("task")
    @click.option("--evidence", required=True, help="The digest that `mac task outcome` showed you, or its beginning.")
    @click.option("--why", required=True, help="The reason, which its history keeps.")
    @cli_show.hub_options
    def ordered(*, task: str, evidence: str, why: str, hub_url: str | None, token: str | None, as_json: bool) -> None:
        hub = cli_show.client(hub_url, token)
        digest, attempt = _looked_at(hub, task, evidence)
        said = {"evidence": digest, "why": why}
        if decision is not None:
            said |= {"decision": decision, "attempt": attempt}
        cli_show.document(hub.post(f"/v1/tasks/{task}/{route}", said), as_json=as_json)

    return ordered


def _looked_at(hub: HubClient, task: str, beginning: str) -> tuple[str, str]:
    """The digest and the attempt of the current evidence, if its digest begins so."""
    if len(beginning) < EVIDENCE_CHARS_MIN:
        raise click.BadParameter(f"at least {EVIDENCE_CHARS_MIN} characters", param_hint="--evidence")
    current = hub.get(f"/v1/tasks/{task}/outcome")["evidence"]
    if current is None:
        raise Rejected(Refusal.EVIDENCE_MOVED_ON, {"problem": "the task has none"})
    digest = current["facts"]["digest"]
    if not digest.startswith(beginning):
        raise Rejected(Refusal.EVIDENCE_MOVED_ON, {"problem": f"{digest[:12]} is the current one"})
    return digest, current["facts"]["attempt"]


COMMANDS = (
    _order("stop", "Ask it to stop; what is being landed is settled first.", reasoned=True),
    _order("start", "Offer a stopped one again.", reasoned=False),
    _order("hold", "Keep it from being leased and landed.", reasoned=True),
    _order("release", "Let a held one go on.", reasoned=False),
    _order("retry", "Open a blocked one again, with one more attempt.", reasoned=True),
    _order("cancel", "Give it up for good.", reasoned=True),
    _on_evidence("accept", "accept", "accepted", "Accept exactly this evidence. It completes nothing."),
    _on_evidence("reject", "accept", "rejected", "Reject exactly this evidence. It stops nothing."),
    _on_evidence("wave", "wave", None, "Let through what the review asks a person for, on exactly this evidence."),
)
