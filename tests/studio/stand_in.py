"""A worker whose process has no model: it answers at once, or waits until it is cancelled or killed."""

from __future__ import annotations

import sys
import threading

from sightline.generation.model_options import ModelOptions
from sightline.studio.worker import Worker

# kind or prompt: "fail", "hang", or anything else, which is done at once. A film leaves what a real one does while it is made.
# An estimate and the scores of a token hang, and there are no weights to read.
PROCESS = """
import json, pathlib, shutil, sys
json.loads(sys.stdin.readline())
begun = {}
for line in sys.stdin:
    task = json.loads(line)
    if "cancel" in task:
        shutil.rmtree(begun.pop(task["cancel"], ""), ignore_errors=True)
        print(json.dumps({"id": task["cancel"], "event": "cancelled"}), flush=True)
        continue
    say = lambda **content: print(json.dumps({"id": task["id"], **content}), flush=True)
    arguments, result = task["arguments"], task["arguments"]
    own = {"estimate": "hang", "scores": "hang", "weights": "fail"}
    wanted = own.get(task["kind"], arguments.get("prompt", task["kind"]))
    if task["kind"] == "generate":
        output = pathlib.Path(arguments["output"])
        result = {"name": output.name, "seconds": 3.0}
        begun[task["id"]] = output.with_name(f".{output.name}.sightline-new")
        begun[task["id"]].mkdir(parents=True)
    say(event="progress", step=1, steps=2, fraction=0.5)
    if wanted == "fail":
        say(event="failed", sentence="it did not work.")
    elif wanted != "hang":
        say(event="done", result=result)
"""


def stand_in_worker() -> Worker:
    return Worker(ModelOptions(), [sys.executable, "-c", PROCESS])


class Recorder:
    """Remembers events, and tells when there was progress."""

    def __init__(self):
        self.events, self.progress = [], threading.Event()

    def __call__(self, event):
        self.events.append(event)
        if event["event"] == "progress":
            self.progress.set()

    @property
    def kinds(self):
        return [event["event"] for event in self.events]
