"""Reports as one HTML file that contains its text, tables and pictures, and loads nothing from elsewhere.

A report is a title, a lead and a list of sections; the template is ``templates/report.html``. Everything that comes
from a user or a file is escaped.
"""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sparse_langevin.runtime.extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
Mood = Literal["", "good", "bad", "quiet"]


@dataclass(frozen=True)
class TableCell:
    """The text of a table's cell, and whether it is good or bad news."""

    text: str
    mood: Mood = ""


@dataclass(frozen=True)
class Table:
    """A table; its first column holds headings, the others numbers or, with ``prose``, text."""

    columns: Sequence[str]
    rows: Sequence[Sequence[TableCell | str]]
    caption: str = ""
    prose: bool = False

    def cells(self) -> list[list[TableCell]]:
        """All rows as cells."""
        return [[cell if isinstance(cell, TableCell) else TableCell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A PNG with a caption, which is also its alternative text."""

    png: bytes
    caption: str

    @property
    def uri(self) -> str:
        """The picture as a data URI."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Section:
    """A heading, then paragraphs, tables and pictures, in this order."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = field(default=())


def render(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """Return the page as HTML."""
    jinja2 = require("a report", "surrogates", "jinja2")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("sparse_langevin.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    return str(template.render(title=title, lead=lead, sections=sections, footer=footer))


def plain(text: str) -> str:
    """Text of a user as a figure shows it: matplotlib takes what stands between two dollar signs for a formula."""
    return text.replace("$", r"\$")


def png(figure: "Figure", dpi: int = DPI) -> bytes:
    """A figure as a PNG, without matplotlib's version in it, so that equal figures give equal files."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def number(value: float | None, digits: int = 3) -> str:
    """Format a number for a table; None and nan become a dash."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"  # noqa: RUF001


def with_error(value: float | None, error: float | None, digits: int = 3) -> str:
    """Format a mean with its standard error."""
    return number(value, digits) if value is None or error is None else f"{number(value, digits)} ± {error:.{digits}f}"
