"""Reports as one HTML file: text, tables and pictures inside it, nothing to fetch from anywhere.

A report is a title, a lead and a list of sections; the page is ``templates/report.html``. Everything that comes from a
user or a file is escaped.
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
class Cell:
    """Text of a table's cell, and whether it is good or bad news."""

    text: str
    mood: Mood = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows of text; the first column is a heading, the others are numbers unless ``prose``."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell | str]]
    caption: str = ""
    prose: bool = False

    def cells(self) -> list[list[Cell]]:
        """All rows, as cells."""
        return [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A PNG with the text below it, which also serves those who cannot see it."""

    png: bytes
    caption: str

    @property
    def uri(self) -> str:
        """The picture as an address that contains it."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, then tables and pictures in this order."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = field(default=())


def render(title: str, lead: str, sections: Sequence[Section], footer: str = "") -> str:
    """Return the page."""
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


def png(figure: "Figure", dpi: int = DPI) -> bytes:
    """A figure as the bytes of a PNG, without the date, so that equal figures are equal files."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"  # noqa: RUF001


def with_error(value: float | None, error: float | None, digits: int = 3) -> str:
    """A mean and its standard error."""
    return number(value, digits) if value is None or error is None else f"{number(value, digits)} ± {error:.{digits}f}"
