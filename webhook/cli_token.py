"""`mac token`: the first token of a hub, and further ones."""

import click

from ledger import access
from ledger.access import Scope
from ledger.session import Ledger
from ledger.settings import load
from webhook import cli_show


@click.group()
def token() -> None:
    """Who may come in."""


@token.command()
@click.option("--json", "as_json", is_flag=True, help="Answer with JSON.")
def bootstrap(as_json: bool) -> None:
    """Make the first token, of scope admin, straight in the ledger of this machine. It is printed once."""
    settings = load()
    ledger = Ledger.open(settings.ledger_url, bounds=settings.bounds)
    try:
        with ledger.write() as tx:
            made = access.bootstrap(tx, actor="bootstrap")
    finally:
        ledger.close()
    _print({"id": made.token_id, "scope": made.scope.value, "worker": None, "token": made.secret}, as_json=as_json)


@token.command()
@click.option("--scope", type=click.Choice([scope.value for scope in Scope]), required=True)
@click.option("--label", required=True, help="What it is for.")
@click.option("--worker", help="The worker that an executor's or a batch token is bound to.")
@cli_show.hub_options
def create(
    *, scope: str, label: str, worker: str | None, hub_url: str | None, token: str | None, as_json: bool
) -> None:
    """Make a token. It is printed once, and nobody can read it again."""
    wanted = {"scope": scope, "label": label, "worker": worker}
    _print(cli_show.client(hub_url, token).post("/v1/tokens", wanted), as_json=as_json)


def _print(made: dict[str, str | None], *, as_json: bool) -> None:
    """The secret alone on stdout, ready for a variable; the rest is talk."""
    if as_json:
        cli_show.document(made, as_json=True)
        return
    click.echo(f"{made['id']} ({made['scope']}); it is shown this once", err=True)
    click.echo(made["token"])
