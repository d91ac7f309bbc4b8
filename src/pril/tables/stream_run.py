"""One run of a stream: what identifies it, and the model that it leaves behind."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from pril.core.evaluation import Evaluation
from pril.io import model_files
from pril.reporting.words import count
from pril.tables.files import TableWarning
from pril.tables.stream import Finished, Stream


def run_stream(
    stream: Stream,
    descriptor: int,
    format: str | None,  # noqa: A002
    output: Path | None,
    half_life: float | None,
    again: bool,
) -> Evaluation:
    """Answer all rows, and write what was learned; return how good the answers were.

    A run with a checkpoint that replaces its own model is never learned twice: if it is repeated
    after its end, it answers nothing, unless `again` is true.
    """
    loaded, saved, labels = stream.model, stream.checkpoint, list(stream.names)
    notes = {"labels": labels, **loaded.about.notes}
    last = Finished.of(notes.pop("finished", None), loaded.path)
    begun = {
        # A model that begins with this stream has no file yet.
        "checksum": sha256(loaded.path.read_bytes() if loaded.path.exists() else b"").hexdigest(),
        "streamed": notes.get("streamed", 0),
    }
    origin: dict[str, Any] = {"model": begun, "labels": labels, "half-life": half_life}
    if stream.options.asked:
        origin["csv"] = stream.options.style.to_note()
    if stream.options.skip:  # blank lines count as rows
        origin["on-error"] = "skip"
    in_place = bool(saved and output and output.resolve() == loaded.path.resolve())
    if saved:
        saved.origin = origin
        if in_place and last:
            if saved.is_of(last.origin):  # killed after it had replaced the model
                saved.remove()
            if not again and last.origin | {"model": begun} == origin and not saved.path.exists():
                stream.last = last

    def keep() -> None:
        if not output:
            return
        if stream.style_note and not notes.get("csv"):
            notes["csv"] = stream.style_note
        notes["streamed"] = begun["streamed"] + stream.evaluation.rows
        if in_place:
            notes["finished"] = asdict(Finished(origin, stream.position, stream.evaluation))
        model_files.write(loaded.model, output, kind="model", notes=notes)

    try:
        stream.run(descriptor, format)
    except BaseException:
        if saved is None:  # the model has learned all rows before this one, whatever ended it
            keep()
        raise
    if last and stream.is_repeated:
        rows = count(last.position.rows, "row")
        said = f"{loaded.path} has already learned the first {rows}"
        warnings.warn(TableWarning(said, hint="again"), stacklevel=2)
        if stream.position.rows == last.position.rows:  # the model stays as it is
            return last.evaluation
    keep()
    return stream.evaluation
