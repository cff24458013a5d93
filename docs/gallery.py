"""Make one real page of every kind from the example flights, photograph each, and write the gallery: docs/gallery.md.

``.venv/bin/python docs/gallery.py [name ...]`` runs the commands that the gallery shows, each as a reader would; of the
named pages alone, the others stay as they are.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import typer

ROOT = Path(__file__).parent.parent
STATIC = Path("_static") / "gallery"
FLIGHTS = "--target arr_delay --group date --key flight_id"
SPLIT = f"evenfold split flights.parquet {FLIGHTS} --name flights"  # again, it is found
RIDGE = "--model sklearn.linear_model:Ridge"


@dataclass(frozen=True)
class Shown:
    """A page of the gallery: what it says, the command that made it, what had to run before, and which file it is."""

    name: str
    title: str
    words: str
    command: str
    page: str = "report.html"
    before: tuple[str, ...] = ()


SHOWN = (
    Shown(
        "split",
        "A split",
        "A verdict, how even the folds are and how even they could be, and what the audit found.",
        SPLIT,
        "split/report.html",
    ),
    Shown(
        "evaluation",
        "An evaluation",
        "Scores with intervals and baselines, every fold, and what the model uses.",
        "evenfold evaluate flights.parquet --manifest flights --exclude dep_delay",
        before=(SPLIT,),
    ),
    Shown(
        "tuning",
        "A tuning",
        "Every configuration, the one that was chosen, and what choosing costs.",
        "evenfold tune flights.parquet --manifest flights --exclude dep_delay --grid grid.yaml",
        before=(SPLIT,),
    ),
    Shown(
        "comparison",
        "A comparison",
        "Which of two models is better, by how much, and whether these folds can tell.",
        "evenfold compare {first} {second} -o page.html",
        "page.html",
        (
            SPLIT,
            f"evenfold evaluate flights.parquet --manifest flights --exclude dep_delay {RIDGE}",
            "evenfold evaluate flights.parquet --manifest flights --features hour --features carrier",
        ),
    ),
    Shown(
        "look",
        "A look at locked rows",
        "The one score of rows that nobody has seen, why it was looked at, and how often before.",
        "evenfold evaluate flights.parquet --manifest locked --exclude dep_delay --on holdout --reason 'final report'",
        before=(f"evenfold split flights.parquet {FLIGHTS} --name locked --holdout 0.2",),
    ),
    Shown(
        "growth",
        "A split that has grown",
        "What joined month by month, and that no row has moved.",
        "evenfold extend year month_12.parquet --batch",
        "split/report.html",
        (
            f"evenfold split month_07.parquet {FLIGHTS} --name year",
            *(f"evenfold extend year month_{month:02}.parquet --batch" for month in range(8, 12)),
        ),
    ),
    Shown(
        "retraining",
        "A retraining",
        "Whether the new model replaces the champion, and why.",
        f"evenfold retrain flights.parquet {FLIGHTS} --name nightly --exclude dep_delay",
        before=(f"evenfold retrain spring.parquet {FLIGHTS} --name nightly --exclude dep_delay",),
    ),
    Shown(
        "audit",
        "An audit",
        "Features that give the target away, rows on both sides, and every check that passed.",
        "evenfold audit .evenfold/splits/flights/1.0 flights.parquet --record",
        "report.html",
        (SPLIT,),
    ),
    Shown(
        "folds",
        "The number of folds",
        "What more folds would change in the score, and whether it is worth their time.",
        f"evenfold folds flights.parquet --target arr_delay --k 3,5,10,20 --exclude dep_delay {RIDGE} -o page.html",
        "page.html",
    ),
    Shown(
        "strategies",
        "Strategies beside one another",
        "How far scores scatter under random folds and under the ones that balance.",
        f"evenfold strategies flights.parquet --target arr_delay --n-seeds 20 --exclude dep_delay {RIDGE} -o page.html",
        "page.html",
    ),
)


def tables(folder: Path) -> None:
    """Write what the commands read: every tenth flight of the year, those until June, those of single months."""
    flights = pd.read_parquet(ROOT / "examples" / "flights.parquet")[::10]
    flights.to_parquet(folder / "flights.parquet", index=False)
    flights[flights["month"] <= 6].to_parquet(folder / "spring.parquet", index=False)
    for month in range(7, 13):
        flights[flights["month"] == month].to_parquet(folder / f"month_{month:02}.parquet", index=False)
    (folder / "grid.yaml").write_text("learning_rate: [0.02, 0.1]\nmax_leaf_nodes: [4, 31]\n", encoding="utf-8")


def ran(command: str, folder: Path) -> str:
    """Run a command of the gallery, and return the first digits of the run that it recorded, if it did."""
    from evenfold.flows.cli import app  # reads where its home is when it is imported

    words = shlex.split(command)[1:]
    plain = [] if words[0] in ("compare", "audit", "folds", "strategies") else ["--engine", "plain"]
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.suppress(typer.Exit):
        app([*words, *plain], standalone_mode=False)
    told = [line.split() for line in printed.getvalue().splitlines() if line.startswith("  run ")]
    return told[-1][1].strip(",") if told else ""


def made(shown: Shown, folder: Path) -> Path:
    """Run a page's commands and return the file that it was written to."""
    earlier = [ran(command, folder) for command in shown.before]
    first, second = ["", "", *earlier][-2:]
    run = ran(shown.command.format(first=first, second=second), folder)
    if shown.page == "page.html":
        return folder / shown.page
    pages = (folder / ".evenfold" / "mlartifacts").glob(f"*/{run}*/artifacts/{shown.page}")
    return max(pages, key=lambda page: page.stat().st_mtime)  # an audit does not name its run


def relinked(html: str) -> str:
    """Return a page whose links lead to other pages of the gallery: the folders of the runs are not here."""
    return re.sub(r'href="[^"#]*split/report\.html"', 'href="split.html"', html)


def photograph(page: Path, picture: Path) -> None:
    """Photograph the first screen of a page, half as large as it is."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no chromium and no google-chrome on the PATH; install one to photograph the pages.")
    flags = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        "--window-size=1100,800",
        "--force-device-scale-factor=0.5",
    ]
    subprocess.run([browser, *flags, f"--screenshot={picture}", page.as_uri()], check=True, capture_output=True)


def gallery() -> str:
    """Return the gallery's page: a card for each page, with its photograph and its command."""
    cards = "\n\n".join(_card(shown) for shown in SHOWN)
    return (
        "# Gallery\n\n"
        "One page of every kind, as the commands below write it: one file each, without scripts, that can be sent to\n"
        "anybody. The table is every tenth of the example's 20,000 flights. Written by `python docs/gallery.py`.\n\n"
        f"::::{{grid}} 1 1 2 2\n:gutter: 3\n\n{cards}\n::::\n"
    )


def _card(shown: Shown) -> str:
    return (
        f":::{{grid-item-card}} {shown.title}\n:link: {STATIC / shown.name}.html\n:link-type: url\n"
        f":img-bottom: {STATIC / shown.name}.png\n:img-alt: The first screen of the page: {shown.title.lower()}\n\n"
        f"{shown.words}\n\n`{shown.command.format(first='RUN_A', second='RUN_B')}`\n:::"
    )


def main(names: list[str]) -> None:
    """Write the pages, their photographs and the gallery."""
    place = ROOT / "docs" / STATIC
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evenfold-gallery-") as name:
        folder = Path(name)
        os.environ |= {"EVENFOLD_HOME": str(folder / ".evenfold"), "COLUMNS": "200"}
        tables(folder)
        for shown in (each for each in SHOWN if not names or each.name in names):
            page = place / f"{shown.name}.html"
            page.write_text(relinked(made(shown, folder).read_text(encoding="utf-8")), encoding="utf-8")
            photograph(page, place / f"{shown.name}.png")
            sys.stdout.write(f"{shown.name}: {page.stat().st_size // 1024} KiB\n")
    (ROOT / "docs" / "gallery.md").write_text(gallery(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
