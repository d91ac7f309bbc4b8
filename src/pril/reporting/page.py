"""A page of headings, paragraphs, tables, lists and pictures, as HTML and as Markdown."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pril.errors import MissingExtraError
from pril.reporting.words import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title of the page."""

    level: int
    text: str
    kind: ClassVar = "heading"

    def markdown(self) -> str:
        """Return the heading as Markdown."""
        return f"{'#' * self.level} {self.text}"


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str
    kind: ClassVar = "paragraph"

    def markdown(self) -> str:
        """Return the sentences."""
        return self.text


@dataclass(frozen=True)
class Grid:
    """A table: the first columns hold words, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_words: int = 1
    kind: ClassVar = "grid"

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]
    kind: ClassVar = "bullets"

    def markdown(self) -> str:
        """Return the list as Markdown."""
        return "\n".join(f"- {item}" for item in self.items)


@dataclass(frozen=True)
class Picture:
    """A figure."""

    name: str
    figure: Figure
    format: Literal["png", "svg"] = "svg"
    kind: ClassVar = "picture"

    def markdown(self) -> str:
        """Return a link to the picture as a file."""
        return f"![{self.name}]({self.name}.png)"


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


Block = Heading | Paragraph | Grid | Bullets | Picture


class Page(NamedTuple):
    """A title, which a browser shows in its tab, and what is on the page."""

    title: str
    blocks: Sequence[Block]

    def html(self) -> str:
        """Return one file that needs no other and runs no script; all text is escaped."""
        return str(template("blocks.html").render(title=self.title, blocks=self.blocks))

    def markdown(self) -> str:
        """Return the page as Markdown; its pictures are files beside it."""
        return "\n\n".join(block.markdown() for block in self.blocks) + "\n"


@cache
def template(name: str) -> Any:
    """Return a template of pages."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("a report needs jinja2", "plot") from error
    loader = PackageLoader("pril")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(repr=repr, number=lambda value, digits: f"{value:.{digits}f}")
    environment.globals.update(count=count, data_url=data_url)
    return environment.get_template(name)
