"""Write what is generated: in the README real output, figures and benchmarks; and its pictures."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from evenfold.manifests import decide
from evenfold.reports import Picture

ROOT = Path(__file__).parent.parent
RUN_ID = re.compile(r"\b[0-9a-f]{32}\b|(?<=\brun )[0-9a-f]{8}\b|(?<=compare )[0-9a-f]{8}\b")
SECONDS = re.compile(r"(?<=fits, )\d+ s$", re.M)


def commands(text: str) -> list[str]:
    """Return the commands of the README's output block."""
    block = re.search(r"<!-- output -->\n```console\n(.*?)```", text, re.S)
    assert block is not None
    return [line.removeprefix("$ ") for line in block.group(1).splitlines() if line.startswith("$ ")]


def in_a_shell(words: list[str], home: str) -> str:
    """Return what the installed command prints."""
    program = f"{Path(sys.executable).parent}/evenfold"
    environment = {**os.environ, "EVENFOLD_HOME": home}
    ran = subprocess.run([program, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return ran.stdout


def output_of(command: str, run: Callable[[list[str], str], str]) -> str:
    """Return what ``command`` prints in a home of its own, with the ids that differ each time named as such."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".evenfold-readme-") as home:
        # Both engines print the same; this one starts no server.
        printed = run([*shlex.split(command)[1:], "--engine", "plain"], home)
        lines = printed.replace(f"{Path(home).name}", ".evenfold").splitlines()
    return SECONDS.sub("a few seconds", RUN_ID.sub("<run id>", "\n".join(line.rstrip() for line in lines)))


def filled(text: str, run: Callable[[list[str], str], str] = in_a_shell) -> str:
    """Return the README's text with its generated parts made anew."""
    shown = "\n\n".join(f"$ {command}\n{output_of(command, run)}" for command in commands(text))
    text = _between(text, "output", f"```console\n{shown}\n```")
    leak = json.loads(LEAK.read_text(encoding="utf-8"))
    random, whole = (leak[name]["r2"] for name in ("flights-random", "flights-by-date"))
    text = _between(text, "leak", f"R² {random:.3f} under random folds, {whole:.3f} on whole dates in `evenfold demo`.")
    return _between(_between(text, "promises", promises()), "benchmarks", benchmark_summary())


def promises() -> str:
    """Return what the product promises, each with a figure of benchmarks.json or coverage.json in docs/results."""
    results = json.loads((ROOT / "docs" / "results" / "benchmarks.json").read_text(encoding="utf-8"))["results"]

    def row(name: str, work: str) -> dict[str, str]:
        return next(row for row in results[name] if row["work"].startswith(work))

    grouped, moved = row("grouped", "500 groups, 4 classes"), row("growth", "500 groups, then 12")
    flow = row("production", "10 folds of 3 s")
    closer, time = map(float, re.findall(r"[\d.]+", grouped["ratio"].partition("/")[2]))
    anew, start = (float(re.findall(r"[\d.]+", words)[-1]) for words in (moved["peer"], flow["work"]))
    study = json.loads((ROOT / "docs" / "results" / "coverage.json").read_text(encoding="utf-8"))
    usual = [known for known in study["rows"] if known["method"] == "auto"]
    tame, heavy = ([k["model"] for k in usual if ("heavy" in k["process"]) == tail] for tail in (False, True))
    processes = len({known["process"] for known in usual if "heavy" not in known["process"]})
    told = (
        f"""* **Even.** 500 groups of 4 classes come out {closer:.0f} times closer to even than from
        StratifiedGroupKFold, in {time:.0%} of its time; the report states the mathematical limit and the gap.""",
        f"""* **Kept.** The decision is a manifest with an identity: rows with a key get the same folds on every
        machine, in any row order. In a simulated year of growth {moved["ours"]} of the rows changed their fold;
        splitting anew moved {anew:.0f}% a month.""",
        f"""* **Honest.** Intervals that say {study["level"]:.0%} held the truth in {min(tame):.0%} to {max(tame):.0%}
        of data sets from {processes} simulated processes, and in {min(heavy):.0%} of one more, with heavy tails.
        Beside every score stands a model that has learnt nothing.""",
        f"""* **In place.** A `cv` for scikit-learn; runs, datasets and models in MLflow; cached tasks and flows in
        Prefect, which take {flow["ratio"]} times as long as joblib for 10 fits of 3 s, and {start:.0f} s to start.""",
    )
    return "\n".join(textwrap.fill(" ".join(words.split()), 118, subsequent_indent="  ") for words in told)


def benchmark_summary() -> str:
    """Return how many rows of the results of ``make bench`` reach their target, and which do not."""
    file = ROOT / "docs" / "results" / "benchmarks.json"
    if not file.exists():
        return "`make bench` writes this table."
    told = json.loads(file.read_text(encoding="utf-8"))
    rows = [row for each in told["results"].values() for row in each]
    missed = [f"* {row['work']}: {_judged(row)} instead of {row['target']}" for row in rows if not row["met"]]
    versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items())
    summary = (
        f"{len(rows) - len(missed)} of {len(rows)} rows reach what they should, each beside a peer in the same run: "
        "[all of them](docs/benchmarks.md)."
    )
    return "\n".join([f"{summary} {told['date']}, {told['machine']}; {versions}.", *missed])


def _judged(row: dict[str, Any]) -> str:
    """Return the figure that the target is about: a time, where it is one, or else the ratio, where there is one."""
    return str(row["ours" if str(row["target"]).endswith(" s") or row["ratio"] == "" else "ratio"])


LEAK = ROOT / "docs" / "results" / "leak.json"


def measure_leak() -> None:
    """Run the demo's two halves and keep their scores: the figures of the README's first picture."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".evenfold-readme-") as home:
        ran = subprocess.run(
            [f"{Path(sys.executable).parent}/evenfold", "demo", "--engine", "plain", "--json"],
            cwd=ROOT, env={**os.environ, "EVENFOLD_HOME": home}, capture_output=True, text=True, check=True,
        )  # fmt: skip
    found = {}
    for outcome in json.loads(ran.stdout)[:2]:
        estimate = next(each for each in outcome["estimates"] if each["metric"] == "r2")
        found[outcome["split"]["name"]] = {
            "r2": round(estimate["value"], 4),
            "folds": [round(score["test"]["r2"], 4) for score in outcome["scores"]],
        }
    LEAK.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def leak_picture() -> str:
    """Return the README's first picture: the same model under random folds and under folds of whole dates."""
    found = json.loads(LEAK.read_text(encoding="utf-8"))
    rows = (
        ("five random folds", found["flights-random"], "#E69F00", "what the team would report"),
        ("five folds of whole dates", found["flights-by-date"], "#0072B2", "dates the model has never seen"),
    )
    width, left, full = 720, 200, 0.25
    marks = []
    for i, (name, score, colour, meaning) in enumerate(rows):
        y, length = 58 + i * 62, score["r2"] / full * (width - left - 150)
        marks += [
            f'<text x="{left - 12}" y="{y + 20}" text-anchor="end">{name}</text>',
            f'<rect x="{left}" y="{y}" width="{length:.1f}" height="30" rx="2" fill="{colour}"/>',
            f'<text x="{left + length + 10:.1f}" y="{y + 15}" font-weight="bold">R² {score["r2"]:.3f}</text>',
            f'<text x="{left + length + 10:.1f}" y="{y + 31}" font-size="12" class="quiet">{meaning}</text>',
        ]
    title = "One model, the same 20,000 flights: the difference is the leak"
    style = (
        "text{font:14px system-ui,sans-serif;fill:#1b1f24}.quiet{fill:#57606a}svg{background:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.quiet{fill:#9198a1}svg{background:#0d1117}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} 185" role="img" aria-label="{title}">'
        f"<style>{style}</style>"
        f'<text x="12" y="28" font-size="17" font-weight="bold">{title}</text>{"".join(marks)}</svg>\n'
    )


def photographs() -> None:
    """Photograph the pages of the README's first command, as Chromium shows them on a wide screen."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no chromium and no google-chrome on the PATH; install one to photograph the pages.")
    words = commands((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".evenfold-readme-") as home:
        in_a_shell([*shlex.split(words)[1:], "--engine", "plain"], home)
        for place, name in (("*/artifacts/report.html", "evaluation"), ("*/artifacts/split/report.html", "split")):
            (page,) = (Path(home) / "mlartifacts" / "flights").glob(place)
            file = ROOT / "docs" / f"{name}.png"
            flags = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1280,820"]
            subprocess.run([browser, *flags, f"--screenshot={file}", page.as_uri()], check=True, capture_output=True)


def balance_picture() -> str:
    """Return the README's picture: how far each fold's delays are from all flights', dealt at random and sorted."""
    flights = pd.read_parquet(ROOT / "examples" / "flights.parquet")
    columns = {"key": "flight_id", "target": "arr_delay"}
    delays = flights.sort_values("flight_id")["arr_delay"].to_numpy()
    at = np.arange(-60, 181, 2)
    whole = np.searchsorted(np.sort(delays), at, side="right") / delays.size
    picture = Picture(
        "Sorted folds follow the flights as a whole, random ones do not", "arrival delay (minutes)",
        "flights up to that delay, fold minus all (points)", (-60, 180), (-2.4, 2.4), height=260,
    )  # fmt: skip
    for strategy, colour in (("KFold", 1), ("SortedStratifiedKFold", 0)):
        manifest = decide({"strategy": strategy, "columns": columns}, flights)
        for fold in range(5):
            mine = np.sort(delays[manifest.membership.column() == fold])
            gap = np.searchsorted(mine, at, side="right") / mine.size - whole
            picture.line(zip(at, gap * 100, strict=True), colour)
    picture.name("five random folds (KFold)", 1, "line")
    picture.name("five sorted folds (SortedStratifiedKFold)", 0, "line")
    return picture.file()


def intervals() -> str:
    """Return the table of the interval methods, from their records."""
    from evenfold.estimates.intervals.registry import INTERVALS, METHODS

    chosen = [(name, METHODS[name]) for name in INTERVALS if name in METHODS]
    usual = f"{METHODS['corrected_wald'].of}; in time order {METHODS['stretches'].of}"
    rows = [("auto", usual, "", ""), *((name, each.of, each.only, each.fits) for name, each in chosen)]
    rows.append(("none", "", "", ""))
    lines = [f"| `{name}` | {of} | {only} | {fits or 'none'} |" for name, of, only, fits in rows]
    return "\n".join(["| interval | of | only for | further fits |", "|---|---|---|---|", *lines])


def leaks_of_others() -> str:
    """Return what the audit finds of leaks that others planted, from benchmarks/leaks/others.json."""
    told = json.loads((ROOT / "benchmarks" / "leaks" / "others.json").read_text(encoding="utf-8"))
    count = {kind: f"{sum(map(bool, told[kind].values()))} of {len(told[kind])}" for kind in told if kind != "date"}
    from finding_pages import planted

    ours = planted()["we"]
    alone = Counter(check for found in [*planted()["others"], *ours] if len(found) == 1 for check in found)
    return (
        f"Of leaks that others planted it finds {count['leaks']}; it warns of {count['clean']} tables in which nothing "
        f"is known to be wrong, and of {count['shuffled']} of these with their targets shuffled ({told['date']}, "
        "`python -m benchmarks.leaks.others`). Of those that we planted it finds "
        f"{sum(map(bool, ours))} of {len(ours)} ([beside other tools](benchmarks.md#leaks)). Without one check the "
        "leaks of both would be missed that it alone finds: "
        f"{', '.join(f'{check} {n}' for check, n in alone.most_common())}; [its page](findings.md) says how many it "
        "finds at all."
    )


def recall() -> str:
    """Return the sentence at the foot of an audit's page: what audits find of planted leaks, and warn of in vain."""
    from finding_pages import planted

    told = json.loads((ROOT / "benchmarks" / "leaks" / "others.json").read_text(encoding="utf-8"))
    counts = [(len(of), sum(map(bool, of))) for of in (*planted().values(), told["clean"].values())]
    (others, found), (ours, found_of_ours), (clean, warned) = counts
    return (
        f"Of {others} leaks that others planted such an audit finds {found}, of {ours} of our own {found_of_ours}; of "
        f"{clean} tables in which nothing is known to be wrong it warns of {warned} ({told['date']})\n"
    )


def _between(text: str, mark: str, content: str) -> str:
    pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", re.S)
    return pattern.sub(lambda found: f"{found.group(1)}{content}\n{found.group(2)}", text)


if __name__ == "__main__":
    measure_leak()
    photographs()
    (ROOT / "docs" / "leak.svg").write_text(leak_picture(), encoding="utf-8")
    (ROOT / "docs" / "balance.svg").write_text(balance_picture(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text(encoding="utf-8")), encoding="utf-8")
    audit = ROOT / "docs" / "audit.md"
    audit.write_text(_between(audit.read_text(encoding="utf-8"), "others", leaks_of_others()), encoding="utf-8")
    (ROOT / "reports" / "templates" / "recall.j2").write_text(recall(), encoding="utf-8")
    estimates = ROOT / "docs" / "estimates.md"
    estimates.write_text(_between(estimates.read_text(encoding="utf-8"), "intervals", intervals()), encoding="utf-8")
