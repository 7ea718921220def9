"""The executor's command in the demo, in the place of a coding agent: reads its task, and does what the title asks."""

import json
import os
from pathlib import Path

task = json.loads(Path(os.environ["MAC_TASK_FILE"]).read_text(encoding="utf-8"))
with Path("GUESTS.md").open("a", encoding="utf-8") as book:
    book.write(f"- {task['title']}\n")
print(f"wrote {task['title']!r} into the guest book")
