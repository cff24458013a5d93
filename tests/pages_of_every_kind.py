"""One page of every kind, from small made-up data with long and non-Latin names: what people look at, and axe."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from evenfold.estimates import (
    Estimate,
    FoldScore,
    ModelSpec,
    Problem,
    aggregate,
    choose,
    compare,
    fit_and_score,
    fold_count_study,
    stratification_study,
)
from evenfold.estimates.intervals.months import Judgement
from evenfold.estimates.promotion import Decision
from evenfold.manifests import Audit, Manifest, audit, decide, extend, measure
from evenfold.reports import (
    SplitLink,
    audit_page,
    comparison_page,
    evaluation_page,
    look_page,
    report_html,
    retraining_page,
    study_page,
    tuning_page,
)

WARD = "the ward in which a patient was first admitted, with the hospital's own numbering (2026)"
KINDS = ["正常", "非常に稀な診断で名前がとても長いもの", "x" * 70, "well"]


@cache
def rows(n: int = 600) -> pd.DataFrame:
    """Return rows with a class, a number, a group and a day; one class is rare, one feature gives the target away."""
    rng = np.random.default_rng(3)
    group = rng.integers(0, 40, n)
    kind = rng.choice(KINDS, n, p=[0.3, 0.02, 0.18, 0.5])
    return pd.DataFrame(
        {
            "row": np.arange(n),
            "kind": kind,
            "amount": rng.lognormal(size=n),
            WARD: [f"ward {g}" for g in group],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 200, n), "D"),
            "age": rng.normal(50, 20, n),
            "leak": pd.Series(kind).map({name: i for i, name in enumerate(KINDS)}).to_numpy() + rng.normal(0, 0.01, n),
        }
    )


def split(strategy: str, params: dict[str, Any] | None = None, **columns: str) -> Manifest:
    spec = {"name": "beds", "strategy": strategy, "params": params or {}, "columns": {"key": "row", **columns}}
    return decide(spec, rows())


def split_page(manifest: Manifest) -> str:
    # Of one feature an audit learns nothing, which is most of its time.
    return report_html(manifest, measure(manifest, rows()), rows(), audit(manifest, rows(), features=["leak"]))


def grown() -> str:
    spec = {
        "name": "wards",
        "strategy": "BalancedGroupKFold",
        "columns": {"key": "row", "target": "kind", "group": WARD},
    }
    manifest = decide(spec, rows().head(120))
    for n in range(160, 601, 40):
        manifest = extend(manifest, rows().head(n)).manifest
    return split_page(manifest)


@cache
def folds(alpha: float = 0.0, target: str = "amount") -> tuple[Problem, list[FoldScore], pd.DataFrame]:
    used: dict[str, Any] = {"features": ["age", "leak"]}
    if target == "amount":
        model = ModelSpec(
            estimator="sklearn.linear_model:Ridge",
            params={"alpha": alpha},
            metrics=("r2", "neg_mean_absolute_error"),
            **used,
        )
    else:
        model = ModelSpec(
            estimator="evenfold.estimates:scaled_logistic_regression", metrics=("accuracy", "neg_log_loss"), **used
        )
    problem = Problem.of(rows(), model, target)
    at = np.arange(len(rows()))
    fits = [
        fit_and_score(problem, np.flatnonzero(at % 5 != k), at[at % 5 == k], seed=0, name=f"fold {k}", fold=k)
        for k in range(5)
    ]
    return problem, [score for score, _ in fits], pd.concat([part for _, part in fits], ignore_index=True)


@cache
def checked(target: str) -> Audit:
    return audit(split("KFold", target=target), rows(), features=["leak", WARD, "day"])


def evaluation(target: str) -> str:
    problem, scores, predictions = folds(target=target)
    manifest = split("KFold", target=target)
    return evaluation_page(
        problem,
        scores,
        aggregate(scores, predictions, problem),
        predictions,
        audit=checked(target),
        split=SplitLink(f"{manifest.name} {manifest.version}", manifest.split_id, "split/report.html"),
    ).html()


def comparison() -> str:
    names = ("Ridge 1000", "Ridge 0")
    (_, _, far), (_, _, near) = folds(1000.0), folds()
    return comparison_page(
        [compare(far, near, m, names=names) for m in ("r2", "neg_mean_absolute_error")], names
    ).html()


def tuning() -> str:
    tried = [{"alpha": alpha} for alpha in (0.0, 10.0, 1000.0)]
    fits = [folds(**params) for params in tried]
    scores = [[score.test["r2"] for score in fit[1]] for fit in fits]
    choice = choose("r2", fits[0][0], [fit[2] for fit in fits], scores)
    means, spreads = [float(np.mean(line)) for line in scores], [float(np.std(line, ddof=1)) for line in scores]
    return tuning_page("r2", tried, means, spreads, choice).html()


def retraining() -> str:
    problem, scores, predictions = folds()
    estimates = aggregate(scores, predictions, problem)
    decision = Decision("candidate", True, "it is as good and has seen 500 newer rows", "r2", 0.01, -0.02, 0.04, 0.3)
    month = Judgement(sentences=["R2 0.73 on 500 rows."])
    told = {"version": "2", "growth": ["500 rows joined, none moved."], "month": month}
    return retraining_page("orders-live", decision, estimates, checked("amount"), split="orders 1.1", **told).html()


def look() -> str:
    score, model = folds()[1][0], "sklearn.linear_model:Ridge"
    estimates = [
        Estimate(metric, "locked holdout", value, None, None, 1, apparent=score.apparent.get(metric))
        for metric, value in score.test.items()
    ]
    return look_page(score, estimates, look=2, reason="the paper", split="orders 1.0", model=model).html()


def strategies() -> str:
    problem = folds()[0]
    return study_page(problem, stratification_study(problem, n_seeds=2)).html()


PAGES: dict[str, Callable[[], str]] = {
    "classes": lambda: split_page(split("StratifiedKFold", target="kind")),
    "groups": lambda: split_page(split("BalancedGroupKFold", target="kind", group=WARD)),
    "numbers": lambda: split_page(split("SortedStratifiedKFold", target="amount")),
    "time": lambda: split_page(split("ForwardChaining", target="amount", time="day")),
    "bootstrap": lambda: split_page(split("Bootstrap", {"n_splits": 30}, target="kind")),
    "group draws": lambda: split_page(
        split("GroupStratifiedShuffleSplit", {"n_splits": 10}, target="kind", group=WARD)
    ),
    "parts": lambda: split_page(
        split("FractionalStratifiedSplit", {"parts": {"train": 0.7, "validation": 0.15, "test": 0.15}}, target="amount")
    ),
    "leave one out": lambda: split_page(split("LeaveOneOut")),
    "grown": grown,
    "evaluation of numbers": lambda: evaluation("amount"),
    "evaluation of classes": lambda: evaluation("kind"),
    "comparison": comparison,
    "tuning": tuning,
    "retraining": retraining,
    "look": look,
    "audit": lambda: audit_page(checked("kind")).html(),
    "folds": lambda: study_page(folds()[0], fold_count_study(folds()[0], [3, 5, 10])).html(),
    "strategies": strategies,
}
