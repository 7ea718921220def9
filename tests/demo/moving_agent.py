"""An agent that is slow enough for somebody to push to main meanwhile: it makes that push itself, then does its work."""

import json
import os
import runpy
import urllib.request
from pathlib import Path

body = {"on": "main", "files": {"NEWS.md": "Somebody was faster.\n"}, "message": "Somebody was faster"}
request = urllib.request.Request(
    f"{os.environ['DEMO_CONTROL']}/repositories/acme/plain/commits",
    json.dumps(body).encode(),
    headers={"Content-Type": "application/json"},
)
with urllib.request.urlopen(request, timeout=20) as answer:
    answer.read()
runpy.run_path(str(Path(__file__).with_name("agent.py")))
