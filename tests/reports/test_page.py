"""The page is one file, and nothing from outside is taken for markup."""

import base64
import re

from matplotlib.figure import Figure

from sparse_langevin.reports.page import Picture, Section, Table, TableCell, number, png, render, with_error


def test_everything_is_escaped_and_inside():
    figure = Figure()
    figure.subplots().plot([1, 2])
    evil = "<script>alert(1)</script>"
    picture = Picture(png(figure), f'"{evil}')
    table = Table([evil], [[TableCell(evil, "bad"), evil]], caption=evil)
    page = render(evil, evil, [Section(evil, [evil], [table], [picture])], footer=evil)
    assert "<script" not in page and page.count("&lt;script&gt;") == 13
    (data,) = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert base64.b64decode(data) == picture.png
    assert not re.search(r"https?:|@import|url\(", page)
    assert png(figure) == picture.png


def test_numbers():
    assert number(None) == number(float("nan")) == "–"  # noqa: RUF001
    assert number(1.23456, 2) == "1.23"
    assert (
        with_error(1.0, 0.5, 1) == "1.0 ± 0.5"
        and with_error(1.0, None, 1) == "1.0"
        and with_error(None, 1.0) == number(None)
    )
