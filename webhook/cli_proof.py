"""`mac proof`: see the proof of a landing. Checking one is a verb of its own, brought by the hands."""

import base64
import json
from typing import Any

import click

from pipeline.errors import Unavailable
from webhook import cli_show


@click.group()
def proof() -> None:
    """Proofs of landing."""


@proof.command()
@click.argument("task")
@click.option("--envelope", is_flag=True, help="The signed envelope, byte for byte.")
@cli_show.hub_options
def show(task: str, envelope: bool, hub_url: str | None, token: str | None, as_json: bool) -> None:
    """What the proof of a task says. Its signature is not checked here."""
    content = cli_show.client(hub_url, token).raw(f"/v1/proofs/{task}")
    if envelope:
        click.echo(content, nl=False)
    else:
        cli_show.document(_predicate(content), as_json=as_json)


def _predicate(envelope: bytes) -> dict[str, Any]:
    try:
        statement = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
        predicate = statement["predicate"]
    except (ValueError, KeyError, TypeError) as unreadable:
        raise Unavailable("hub_not_understood", "What the hub sent is no proof.") from unreadable
    if not isinstance(predicate, dict):
        raise Unavailable("hub_not_understood", "What the hub sent is no proof.")
    return predicate
