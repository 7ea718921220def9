"""Signed webhooks: one background thread for each App posts its deliveries in order and keeps the log.

A delivery is signed over its raw bytes. The wait for an answer is ten seconds, and nothing is sent again by itself;
both as GitHub documents. Losing, doubling and swapping deliveries on order happens here.
"""

import fnmatch
import hashlib
import hmac
import json
import threading
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import urllib3

from tests.sandbox.world import App, Delivery, Json, World

TIMEOUT_S = 10.0
KEPT_ANSWER = 10_000


@dataclass
class Mishap:
    """The next `left` deliveries of matching events are lost, doubled or swapped with their successor."""

    kind: str
    event: str
    left: int


class Lane:
    """The queue and the thread of one App."""

    def __init__(self, post: Callable[[Delivery], None], name: str) -> None:
        self._post = post
        self._waiting: deque[Delivery] = deque()
        self._busy = False
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"hooks-{name}", daemon=True)
        self._thread.start()

    def put(self, *deliveries: Delivery) -> None:
        with self._changed:
            self._waiting.extend(deliveries)
            self._changed.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._thread.join(TIMEOUT_S + 1)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    return
                delivery = self._waiting.popleft()
                self._busy = True
            try:
                self._post(delivery)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()


class Courier:
    """Sends events to Apps. `watch` sees every payload before it is sent (the referee)."""

    def __init__(self, world: World, watch: Callable[[str, Json], None]) -> None:
        self.world = world
        self.mishaps: list[Mishap] = []
        self._watch = watch
        self._lanes: dict[int, Lane] = {}
        self._kept_back: dict[int, Delivery] = {}
        self._http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(total=TIMEOUT_S))

    def send(self, app: App, event: str, payload: Json, repository_id: int | None, installation_id: int | None) -> None:
        """Signs and queues one delivery for an App that has a webhook; the answer is not waited for."""
        self._watch(event, payload)
        if not app.webhook_url:
            return
        world = self.world
        with world.lock:
            delivery = Delivery(
                id=world.next_id(),
                guid=str(uuid.uuid4()),
                app=app,
                event=event,
                action=payload.get("action"),
                raw=json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode(),
                repository_id=repository_id,
                installation_id=installation_id,
                at_ms=world.clock(),
            )
            self._queue(delivery)

    def redeliver(self, delivery: Delivery) -> Delivery:
        """The same bytes under the same GUID, logged under a new id."""
        with self.world.lock:
            again = replace(
                delivery,
                id=self.world.next_id(),
                at_ms=self.world.clock(),
                redelivery=True,
                status="pending",
                status_code=0,
                answer=None,
            )
            self.world.deliveries.append(again)
            self._lane(again.app).put(again)
        return again

    def settle(self, timeout_s: float) -> bool:
        """Waits until nothing is queued or under way; False if that took too long."""
        return all(lane.wait_idle(timeout_s) for lane in list(self._lanes.values()))

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._http.clear()

    def _queue(self, delivery: Delivery) -> None:
        self.world.deliveries.append(delivery)
        lane, kind = self._lane(delivery.app), self._mishap(delivery.event)
        earlier = self._kept_back.pop(delivery.app.id, None)
        if kind == "lose":
            delivery.status = "lost"
        elif kind == "swap" and earlier is None:
            delivery.status = "kept back"
            self._kept_back[delivery.app.id] = delivery
            return
        else:
            lane.put(*([delivery, delivery] if kind == "double" else [delivery]))
        if earlier is not None:
            lane.put(earlier)

    def _mishap(self, event: str) -> str | None:
        for mishap in self.mishaps:
            if mishap.left > 0 and fnmatch.fnmatchcase(event, mishap.event):
                mishap.left -= 1
                return mishap.kind
        return None

    def _lane(self, app: App) -> Lane:
        if app.id not in self._lanes:
            self._lanes[app.id] = Lane(self._post, app.slug)
        return self._lanes[app.id]

    def _post(self, delivery: Delivery) -> None:
        headers = _headers(delivery)
        began_ms = self.world.clock()
        try:
            answer = self._http.request("POST", delivery.app.webhook_url or "", body=delivery.raw, headers=headers)
            code, text = answer.status, answer.data[:KEPT_ANSWER].decode(errors="replace")
            word = "OK" if 200 <= code < 300 else f"Invalid HTTP Response: {code}"
        except urllib3.exceptions.HTTPError as error:
            code, text = 0, None
            unreached = isinstance(error, urllib3.exceptions.NewConnectionError)
            late = isinstance(error, urllib3.exceptions.TimeoutError) and not unreached
            word = "timed out" if late else "failed to connect to host"
        with self.world.lock:
            delivery.headers, delivery.status, delivery.status_code, delivery.answer = headers, word, code, text
            delivery.duration_ms = self.world.clock() - began_ms


def _headers(delivery: Delivery) -> dict[str, str]:
    secret = delivery.app.webhook_secret.encode()
    return {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/0a1b2c3",
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Hook-ID": str(delivery.app.hook_id),
        "X-GitHub-Hook-Installation-Target-ID": str(delivery.app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
        "X-Hub-Signature": "sha1=" + hmac.new(secret, delivery.raw, hashlib.sha1).hexdigest(),
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret, delivery.raw, hashlib.sha256).hexdigest(),
    }
