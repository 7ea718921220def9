"""The sandbox as a process of its own: `python -m tests.sandbox --home DIR [--port N] [--seed world.json]`.

Prints one JSON line once it serves, and stops on SIGTERM or SIGINT; it ends with 1 when the referee saw a breach. The seed
is a list of control calls, each `{"path": "repositories", "body": {…}}`, made in order; their answers stand in the line.
"""

import argparse
import json
import signal
import sys
import threading
import urllib.request
from pathlib import Path

from tests.sandbox.sandbox import Sandbox
from tests.sandbox.world import Json


def seed(url: str, calls: list[Json]) -> list[Json]:
    """Makes the control calls of a seed; raises urllib.error.HTTPError on the first that is refused."""
    answers: list[Json] = []
    for call in calls:
        body = json.dumps(call.get("body", {})).encode()
        with urllib.request.urlopen(f"{url}/_sandbox/{call['path']}", body, timeout=60) as answer:
            answers.append(json.load(answer))
    return answers


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sandbox", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder for the repositories; made if missing")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0 takes a free one")
    parser.add_argument("--seed", type=Path, help="JSON file with control calls to make first")
    given = parser.parse_args(argv)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    github = Sandbox.start(given.home, port=given.port)
    try:
        answers = seed(github.url, json.loads(given.seed.read_text())) if given.seed else []
        sys.stdout.write(json.dumps({"ready": True, "url": github.url, "seed": answers}) + "\n")
        sys.stdout.flush()
        stop.wait()
    finally:
        github.close()
    return _judged(github)


def _judged(github: Sandbox) -> int:
    """1 when somebody broke GitHub's description, and all that was seen, on stderr."""
    for violation in dict.fromkeys(github.referee.violations):
        sys.stderr.write(f"against GitHub's description: {violation}\n")
    return 1 if github.referee.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
