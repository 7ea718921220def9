"""One log line for one event: a constant name with keys, JSON for machines, plain for a person at a terminal.

Secrets cannot reach a line by accident: a value under a key that names one is withheld, and settings hold secrets in
a type that does not print itself.
"""

import logging
import re
import sys
from collections.abc import Callable
from typing import TextIO

import structlog
from structlog.contextvars import merge_contextvars
from structlog.typing import EventDict, Processor, WrappedLogger

_SECRET_KEY = re.compile(r"(^|_)(secret|password|private_key|key_pem|authorization|cookie|bearer|api_token)(_|$)")
WITHHELD = "withheld"


def configure(program: str, stream: TextIO | None = None, plain: bool | None = None) -> None:
    """Send this process's log to `stream` (standard error), one line an event, each with `program` and an UTC time.

    JSON, unless `plain`; where that is not said, a terminal gets plain lines. Events of libraries that use the
    standard library's logging take the same way from level WARNING on. Safe to call again: the last call counts.
    """
    out = stream or sys.stderr
    shared = _shared(program)
    plainly = out.isatty() if plain is None else plain
    structlog.configure(
        processors=[*shared, _renderer(plainly)],
        logger_factory=structlog.WriteLoggerFactory(out),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_from_library, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(plainly)],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def _shared(program: str) -> list[Processor]:
    return [
        merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.ExceptionRenderer(),
        _naming(program),
        _withhold_secrets,
    ]


def _renderer(plainly: bool) -> Processor:
    if plainly:
        return structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer(sort_keys=True, default=str)


def _naming(program: str) -> Callable[[WrappedLogger, str, EventDict], EventDict]:
    def name(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event.setdefault("program", program)
        return event

    return name


def _from_library(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["library"] = record.name
        event["text"] = event["event"]
        event["event"] = "library_said"
    return event


def _withhold_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key in event:
        if _SECRET_KEY.search(key.lower()):
            event[key] = WITHHELD
    return event
