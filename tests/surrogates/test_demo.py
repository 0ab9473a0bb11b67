"""The demo, made tiny."""

from tests.commands import call, refused


def test_from_random_fields_to_a_report(tmp_path, monkeypatch, capsys):
    small = ["demo", "--samples", 30, "--cells", 8, "--epochs", 2, "--out", tmp_path / "demo"]
    text = call(*small)
    assert text.count("% on test data") == 2 and str(tmp_path / "demo" / "report.html") in text
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "psgld-sa 70%" in page and "sgld-sa 70%" in page
    assert "it exists" in refused(monkeypatch, capsys, *small)
    assert call(*small, "--force").count("% on test data") == 2  # nothing is trained again
