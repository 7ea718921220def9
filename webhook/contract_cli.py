"""`mac contract`: check a contract file before the hub reads it."""

from typing import IO

import click

from pipeline.contract import parse
from webhook import cli_show


@click.group()
def contract() -> None:
    """The contract of a repository."""


@contract.command()
@click.argument("file", type=click.File("rb"))
@click.option("--json", "as_json", is_flag=True, help="Answer with JSON.")
def check(file: IO[bytes], as_json: bool) -> None:
    """Read a contract (- is stdin) as the gate does. Exit 1 and the line that is wrong when it cannot be read."""
    found = parse(file.read())
    land = found.land
    cli_show.document(
        {
            "digest": found.digest,
            "project": found.project,
            "platforms": list(found.platforms),
            "required_commands": list(found.required_commands),
            "bootstrap": {
                "command": None if found.bootstrap_command is None else list(found.bootstrap_command),
                "creates": found.bootstrap_creates,
            },
            "test": {"command": [list(command) for command in found.test_commands]},
            "land": {
                "method": land.method,
                "required_checks": list(land.required_checks),
                "accepted": [list(pair) for pair in sorted(land.accepted)],
                "allowed_paths": list(land.allowed_paths),
                "max_files": land.max_files,
                "max_lines": land.max_lines,
                "delete_branch": land.delete_branch,
            },
        },
        as_json=as_json,
    )
