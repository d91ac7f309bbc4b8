"""Templates of pages, and figures in them."""

from __future__ import annotations

import base64
import io
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from pril.errors import MissingExtraError
from pril.reporting.words import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def data_url(figure: Figure, kind: Literal["png", "svg"] = "svg") -> str:
    """Return a figure as the address of an image; equal numbers give equal bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "pril", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a browser has more letters
        figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    media = "svg+xml" if kind == "svg" else kind
    return f"data:image/{media};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@cache
def template(name: str) -> Any:
    """Return a template; in HTML all text is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtraError("a report needs jinja2", "plot") from error
    environment = Environment(
        loader=PackageLoader("pril"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(repr=repr, number=lambda value, digits: f"{value:.{digits}f}")
    environment.globals.update(count=count, data_url=data_url)
    return environment.get_template(name)
