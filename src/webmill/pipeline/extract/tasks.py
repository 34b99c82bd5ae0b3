"""The one kind of work there is: a WARC file, a line of a manifest (WARC + WAT + WET), or a batch of captures.

A task travels as a message of a queue. The body of a batch is the JSON array that batchers write, ours and others';
that of files is a JSON object, `{"WARC": path, …}`.
"""

from __future__ import annotations

import hashlib

import msgspec

from webmill.commoncrawl.batch import batch_id, parse_batch_id
from webmill.errors import BadInput
from webmill.infra.queue.base import Message
from webmill.pipeline.extract.manifest import TaskFiles, manifest_line

_files = msgspec.json.Decoder(TaskFiles)


class Task(msgspec.Struct, frozen=True):
    """The work of one worker: `files`, or a `batch` of the run `run` with a number, counted from 1."""

    id: str
    files: TaskFiles = {}
    batch: bytes = b""
    run: str = ""
    number: int = 0

    @property
    def prefix(self) -> str:
        """Return what the keys of its receipts begin with. Batches are many and short-lived: no folder for each."""
        return f"{self.run}/{self.number:08d}-" if self.run else f"{self.id}/"


def task_id(name: str, files: TaskFiles, *, digest: str) -> str:
    """Return an id that is derived from what is made and of which files: other settings are another task."""
    return f"{name}-{hashlib.sha256(f'{digest} {manifest_line(files)}'.encode()).hexdigest()[:12]}"


def task_message(task: Task) -> Message:
    return Message(task.id, task.batch or msgspec.json.encode(task.files))


def read_task(id_: str, body: bytes) -> Task:
    """Return the task of a message. BadInput (bad_task): it is none.

    A batch from another batcher than ours is a run of its own, named by what it says.
    """
    if body.lstrip()[:1] != b"{":
        run, number = parse_batch_id(id_) or (hashlib.sha256(body).hexdigest()[:12], 1)
        return Task(batch_id(run, number), batch=body, run=run, number=number)
    try:
        files = _files.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"no task of ours: {error}", reason="bad_task") from error
    if not files:
        raise BadInput("a task without files", reason="bad_task")
    return Task(id_, files)
