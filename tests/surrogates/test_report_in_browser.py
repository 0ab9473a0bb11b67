"""The report in a real browser: every picture is there, nothing is wider than the window, the console is silent."""

import json
import re
import shutil
import subprocess

import pytest

from tests.commands import call
from tests.surrogates.small import NETWORK

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
CHECK = """
<script>
addEventListener("load", () => {
  const pictures = [...document.images];
  const found = {
    pictures: pictures.length,
    broken: pictures.filter(p => !p.complete || !p.naturalWidth).length,
    without_text: pictures.filter(p => !p.alt).length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    dead_links: [...document.querySelectorAll("nav a")].filter(a => !document.querySelector(a.hash)).length,
  };
  const note = document.createElement("pre");
  note.id = "found";
  note.textContent = JSON.stringify(found);
  document.body.append(note);
});
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_opens_without_a_fault(finished, tmp_path):
    call("report", finished.path, "--network", NETWORK, "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    (tmp_path / "checked.html").write_text(page.replace("</body>", CHECK + "</body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr"]
    command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900", "--dump-dom"]
    result = subprocess.run([*command, f"file://{tmp_path / 'checked.html'}"], capture_output=True, timeout=120)
    found = json.loads(
        re.search(r'<pre id="found">(.*?)</pre>', result.stdout.decode()).group(1).replace("&quot;", '"')
    )
    assert found == {"pictures": 6, "broken": 0, "without_text": 0, "overflow": 0, "dead_links": 0}
    assert "CONSOLE" not in result.stderr.decode()
