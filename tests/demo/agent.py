"""The executor's command in the demo, in the place of a coding agent: reads its task, and does what the title asks.

`agent.py [FILE]` writes a line into the guest book, or into a file of its own.
"""

import json
import os
import sys
from pathlib import Path

task = json.loads(Path(os.environ["MAC_TASK_FILE"]).read_text(encoding="utf-8"))
target = Path(sys.argv[1] if len(sys.argv) > 1 else "GUESTS.md")
line = f"- {task['title']}\n"
if line not in (target.read_text(encoding="utf-8") if target.exists() else ""):
    with target.open("a", encoding="utf-8") as book:
        book.write(line)
print(f"wrote {task['title']!r} into {target}")
