"""A log line is one JSON object with a constant name, and holds no secret."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from pydantic import SecretStr

from ledger.log import WITHHELD, configure


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What a program logs as JSON; the process's own configuration is put back afterwards."""
    handlers, level = logging.root.handlers[:], logging.root.level
    stream = io.StringIO()
    configure("test", stream)
    yield stream
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def only(lines: io.StringIO) -> dict[str, object]:
    (line,) = lines.getvalue().splitlines()
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def test_an_event_is_one_json_line_with_its_keys(lines: io.StringIO) -> None:
    structlog.get_logger().info("lease_taken", task="task_1", token=3)
    found = only(lines)
    assert str(found.pop("at")).endswith("Z")
    assert found == {"event": "lease_taken", "level": "info", "program": "test", "task": "task_1", "token": 3}


def test_what_is_bound_to_the_work_stands_in_every_line(lines: io.StringIO) -> None:
    with structlog.contextvars.bound_contextvars(delivery="d-1"):
        structlog.get_logger().info("delivery_stored")
    assert only(lines)["delivery"] == "d-1"


@pytest.mark.parametrize("key", ["secret", "webhook_secret", "Authorization", "private_key", "password", "api_token"])
def test_a_value_under_a_secret_name_is_withheld(key: str, lines: io.StringIO) -> None:
    structlog.get_logger().info("asked", **{key: "s3cr3t-value"})
    assert "s3cr3t-value" not in lines.getvalue()
    assert only(lines)[key] == WITHHELD


def test_a_secret_of_the_settings_does_not_print_itself(lines: io.StringIO) -> None:
    structlog.get_logger().info("asked", given=SecretStr("s3cr3t-value"))
    assert "s3cr3t-value" not in lines.getvalue()


def test_a_library_speaks_through_the_same_door(lines: io.StringIO) -> None:
    logging.getLogger("urllib3").warning("retrying %s", "x")
    logging.getLogger("urllib3").info("too quiet to be heard")
    found = only(lines)
    assert (found["event"], found["library"], found["text"]) == ("library_said", "urllib3", "retrying x")


def test_an_exception_is_told_in_its_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger().exception("advance_failed")
    assert "ValueError: why" in str(only(lines)["exception"])


def test_a_person_gets_plain_lines(lines: io.StringIO) -> None:
    configure("test", lines, plain=True)
    structlog.get_logger().warning("bell_silent", waited_ms=100)
    assert not lines.getvalue().startswith("{")
    assert "bell_silent" in lines.getvalue()
    assert "waited_ms=100" in lines.getvalue()


def test_below_info_is_not_logged(lines: io.StringIO) -> None:
    structlog.get_logger().debug("detail")
    assert lines.getvalue() == ""
