"""The leak bench: planted leaks and clean tables, our audit beside others'."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.leaks import study
from benchmarks.leaks.real import CLEAN

PEERS = ("leaklens-ml", "trustcv", "tabaudit", "leakhound-ml")
MOST_FALSE = 0.05


def rows() -> list[dict[str, Any]]:
    """Run the study, and return the rows of the table: what was found, and what was warned of where nothing is."""
    study.main()
    return _rows(json.loads(study.RESULTS.read_text(encoding="utf-8")))


def _rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    shares = {tool: _share([hit for hits in study.found(told, tool).values() for hit in hits]) for tool in _tools()}
    clean = {tool: _share(study.warned(told, tool)) for tool in _tools()}
    # Of those in which something is wrong, what others say of them is not judged: theirs are at least so many.
    real = {tool: told["real"]["alarmed"][tool] / CLEAN for tool in _tools()}
    every = study.audited(told)
    n_planted, n_clean = sum(name in every for name in told["about"]["without"]), len(study.warned(told, "evenfold"))
    best = max(PEERS, key=lambda tool: shares[tool])
    quiet = [min(PEERS, key=lambda tool: rates[tool]) for rates in (clean, real)]
    return [
        _row(
            f"planted leaks found, of {n_planted} tables ({len(study.KINDS)} kinds)",
            *(f"{shares['evenfold']:.0%}", f"{best} {shares[best]:.0%}", shares["evenfold"] / shares[best]),
            *("at least 85%, ahead of every peer", shares["evenfold"] >= max(0.85, shares[best])),
        ),
        *(
            _row(
                f"{what} with a warning",
                *(f"{rates['evenfold']:.0%}", f"{least}{_bound(rates is real)} {rates[least]:.0%}", None),
                *(f"at most {MOST_FALSE:.0%}", rates["evenfold"] <= MOST_FALSE),
            )
            for what, rates, least in (
                (f"tables ({n_clean}) in which nothing was planted", clean, quiet[0]),
                (
                    f"real tables ({CLEAN}), nothing being wrong with {told['real']['tables']} of them,",
                    real,
                    quiet[1],
                ),
            )
        ),
    ]


def _unfinished(told: dict[str, Any]) -> str:
    """Return what the others have not audited, where their run was stopped before its end, and what we find there."""
    every, planted = study.audited(told), told["about"]["without"]
    if every >= set(planted):
        return ""
    said = {name: set(alarmed) for name, alarmed in told["evenfold"]["alarms"].items()}
    hits = [bool(said[name] - said[without]) for name, without in planted.items()]
    kinds = {told["about"]["kinds"][name] for name, hit in zip(planted, hits, strict=True) if hit}
    silent = [not said for name, said in told["evenfold"]["alarms"].items() if name.startswith(study.UNTOUCHED)]
    return (
        f"The others' run was stopped before the {len(set(planted) - every)} remaining tables; of all {len(planted)} "
        f"evenfold finds {_share(hits):.0%}, {len(kinds)} of {len(study.KINDS)} kinds in one table at least, and says "
        f"nothing of {sum(silent)} of {len(silent)} in which nothing was planted."
    )


def _bound(unjudged: bool) -> str:
    return ", at least" if unjudged else ""


def _row(work: str, ours: str, peer: str, ratio: float | None, target: str, met: bool) -> dict[str, Any]:
    ratio_said = "" if ratio is None else round(ratio, 2)
    return {"work": work, "ours": ours, "peer": peer, "ratio": ratio_said, "target": target, "met": met}


def _tools() -> tuple[str, ...]:
    return ("evenfold", *PEERS)


def _share(hits: list[bool]) -> float:
    return sum(hits) / max(len(hits), 1)


def notes() -> str:
    """Return which kinds each tool found, in how many of their tables, and how it was counted."""
    told = json.loads(study.RESULTS.read_text(encoding="utf-8"))
    found = {tool: study.found(told, tool) for tool in _tools()}
    names = ["evenfold", *(f"{tool} {told[tool]['version']}" for tool in PEERS)]
    lines = [f"| planted | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    lines += [
        f"| {kind} | " + " | ".join(f"{sum(found[tool][kind])} of {len(found[tool][kind])}" for tool in _tools()) + " |"
        for kind in study.KINDS
    ]
    clean = " | ".join(f"{sum(study.warned(told, tool))} of {len(study.warned(told, tool))}" for tool in _tools())
    real = " | ".join(f"{told['real']['alarmed'][tool]} of {told['real']['tables']}" for tool in _tools())
    seconds = " | ".join(f"{told[tool]['seconds'] / len(told[tool]['alarms']):.1f}" for tool in _tools())
    lines += [f"| *warned where nothing is planted* | {clean} |", f"| *warned of real tables* | {real} |"]
    lines += [f"| *CPU seconds a made table* | {seconds} |"]
    alone = told["real"]["alarmed"]["evenfold"] / told["real"]["tables"]
    failures = [f"{tool} failed on {len(told[tool]['errors'])}" for tool in PEERS if told[tool]["errors"]]
    return (
        "\n".join(lines)
        + f"\n\n{told['about']['date']}. Each kind is planted in a small and a wide table (800 rows of 8 features, "
        "2,500 of 62), of classes and of numbers. It counts as found where a tool warns of something that it does not "
        "warn of in the same table without the leak; tools that take two tables got every fold as their test set once, "
        "and each table with and without its key column. leakhound-ml stops at missing values and got them filled. "
        "The kinds were planted by the authors of the first column. "
        f"{'; '.join(failures)}{' tables.' if failures else ''}{_unfinished(told)}"
        f" Of the {told['real']['tables']} real tables alone evenfold warns of {alone:.0%}. "
        f"{told['about'].get('remark', '')}".rstrip()
    )
