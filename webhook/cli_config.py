"""`mac config`: what this machine's settings are, without their secrets."""

from typing import cast, get_args

import click

from ledger.settings import Program, load
from webhook import cli_show


@click.group()
def config() -> None:
    """The settings of this machine."""


@config.command()
@click.option("--program", type=click.Choice(get_args(Program)), help="Also check that this program could start.")
@click.option("--json", "as_json", is_flag=True, help="Answer with JSON.")
def check(program: str | None, as_json: bool) -> None:
    """Read the settings as a program would, and show them. Exit 2 and a named refusal when they cannot be used."""
    settings = load(None if program is None else cast(Program, program))
    rows = [{"name": shown.name, "value": shown.value, "meaning": shown.meaning} for shown in settings.describe()]
    cli_show.table(rows, ("name", "value"), as_json=as_json)
