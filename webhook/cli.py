"""`mac`: the hub on the command line, a client of `/v1` like any other.

`mac OBJECT VERB [ID] [--json]`. stdout is data, stderr is talk. Exit: 0 yes or done, 1 the answer is no, 2 usage, 3 not
found, 4 not allowed, 5 hub unreachable. Verbs whose effects live elsewhere are found by the entry point group
`mac.commands`.
"""

import sys
from importlib.metadata import entry_points

import click

from ledger.settings import SettingsRefused
from pipeline.errors import HubError, Rejected, Unavailable
from webhook import cli_orders
from webhook.cli_config import config
from webhook.cli_project import project
from webhook.cli_proof import proof
from webhook.cli_task import task
from webhook.cli_token import token
from webhook.problems import STATUS

GROUP = "mac.commands"
_EXIT_OF_STATUS = {401: 4, 403: 4, 404: 3}


class Objects(click.Group):
    """The objects that `mac` knows: its own, and those that other rooms bring. Where both know one, its verbs join."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, sorted."""
        return sorted({*super().list_commands(ctx), *(found.name for found in entry_points(group=GROUP))})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The object by name, with the verbs of everybody who brings some."""
        own = super().get_command(ctx, cmd_name)
        for found in entry_points(group=GROUP, name=cmd_name):
            brought: click.Command = found.load()
            if own is None:
                own = brought
            elif isinstance(own, click.Group) and isinstance(brought, click.Group):
                for verb, command in brought.commands.items():
                    own.add_command(command, verb)
        return own


@click.group(cls=Objects, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mac-hub", message="%(version)s")
def mac() -> None:
    """Ask a mac hub. It is found by MAC_HUB_URL, and knows you by MAC_TOKEN."""


for _object in (config, project, proof, task, token):
    mac.add_command(_object)
for _verb in cli_orders.COMMANDS:
    task.add_command(_verb)


def main(argv: list[str] | None = None) -> None:
    """Run one command and end the process with the exit code that says how it went."""
    sys.exit(run(argv))


def run(argv: list[str] | None = None) -> int:
    """Run one command; the exit code. What went wrong is said on stderr, by its stable code and a sentence."""
    try:
        answer = mac.main(argv, prog_name="mac", standalone_mode=False)
    except click.ClickException as wrong:
        wrong.show()
        return wrong.exit_code
    except click.Abort:
        return 1
    except Rejected as refused:
        _say(refused.code, str(refused))
        return _EXIT_OF_STATUS.get(STATUS[refused.refusal], 1)
    except Unavailable as away:
        _say(away.code, str(away))
        return 5
    except SettingsRefused as refused:
        _say(refused.code, str(refused))
        return 2
    except HubError as broken:
        _say(broken.code, str(broken))
        return 1
    return answer if isinstance(answer, int) else 0


def _say(code: str, sentence: str) -> None:
    click.echo(f"{code}: {sentence}", err=True)


if __name__ == "__main__":
    main()
