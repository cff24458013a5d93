"""Deque's axe finds nothing serious on any kind of page: light, dark, and as wide as a phone."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import browse
from pages_of_every_kind import PAGES

pytestmark = pytest.mark.soak

AXE = "axe-core@4"
RUN = """axe.run(document, {resultTypes: ["violations"]}).then(found => {
  const serious = found.violations.filter(v => ["serious", "critical"].includes(v.impact));
  const out = document.createElement("script"); out.type = "application/json"; out.id = "found";
  out.textContent = JSON.stringify(serious.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3)]));
  document.body.append(out)});"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm to install axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--prefix", str(folder), "--no-save", AXE]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_serious(name: str, look: str, axe: str, tmp_path: Path) -> None:
    make: Callable[[], str] = PAGES[name]
    html = make().replace("<details>", "<details open>")
    page = tmp_path / "page.html"
    page.write_text(html.replace("</body>", f"<script>{axe}</script><script>{RUN}</script></body>"), encoding="utf-8")
    flags = {"dark": ["--blink-settings=preferredColorScheme=0"], "phone": ["--window-size=500,900"]}.get(look, [])
    seen = browse(page, tmp_path / "profile", "--virtual-time-budget=20000", "--dump-dom", *flags)
    found = re.search(r'<script type="application/json" id="found">(.*?)</script>', seen.stdout, re.S)
    assert found is not None, "axe did not run"
    assert json.loads(found[1]) == []
