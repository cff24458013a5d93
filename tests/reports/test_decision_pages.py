"""Pages about decisions say what was decided in their first words, and every figure stands in them whole."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from evenfold.estimates import FoldScore, ModelSpec, Problem, aggregate, choose, compare, fit_and_score
from evenfold.estimates.comparison import Verdict as Compared
from evenfold.estimates.intervals.months import Judgement
from evenfold.estimates.promotion import Decision
from evenfold.manifests import audit, decide
from evenfold.reports import comparison_page, retraining_page, tuning_page
from evenfold.reports.page import Verdict
from pages import Page

METRICS = ("r2", "neg_mean_absolute_error")


def rows(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, 2))
    return pd.DataFrame({"row": range(n), "a": x[:, 0], "b": x[:, 1], "y": x.sum(axis=1) + rng.normal(size=n)})


@cache
def folds(alpha: float = 0.0) -> tuple[Problem, list[FoldScore], pd.DataFrame]:
    """Fit five folds of a ridge regression."""
    model = ModelSpec(estimator="sklearn.linear_model:Ridge", params={"alpha": alpha}, metrics=METRICS, exclude=["row"])
    problem = Problem.of(rows(), model, "y")
    fits = [
        fit_and_score(
            problem, np.flatnonzero(np.arange(300) % 5 != fold), np.arange(fold, 300, 5), seed=0,
            name=f"fold {fold}", fold=fold,
        )
        for fold in range(5)
    ]  # fmt: skip
    return problem, [score for score, _ in fits], pd.concat([part for _, part in fits], ignore_index=True)


def test_a_comparison_names_the_better_model_first_and_reads_errors_as_people_do() -> None:
    _, _, far = folds(alpha=400.0)
    _, _, near = folds()
    comparisons = [compare(far, near, metric, names=("Ridge 400", "Ridge 0")) for metric in METRICS]
    page = Page(comparison_page(comparisons, ("Ridge 400", "Ridge 0")).html())
    assert page.headings[0] == "Ridge 0 is better on every metric"
    assert page.words.count("Ridge 0") >= 2
    assert "neg_mean" not in " ".join(page.words)
    figures = page.numbers["figures"]
    assert [(each.difference, each.p) for each in comparisons] == list(zip(figures[2::6], figures[5::6], strict=True))
    (caption,) = [words for words in page.words if words.startswith("Left of the dashed line Ridge 400 is better")]
    assert caption.endswith("right of it Ridge 0.")
    swapped = comparison_page([compare(near, far, "r2")], ("Ridge 0", "Ridge 400"))
    assert swapped.tiles[0].value == "Ridge 0"


@pytest.mark.parametrize(
    ("verdict", "tile", "lead", "title"),
    [
        ("better", "forest", "Forest is better on R2.", "forest is better on every metric"),
        ("worse", "tree", "Tree is better on R2.", "tree is better on every metric"),
        ("equivalent", "no difference", "No difference that matters on R2.", "No difference that matters"),
        ("unknown", "cannot be told", "Which is better on R2 cannot be told.", "Which is better cannot be told"),
    ],
)
def test_a_comparisons_page_has_its_verdict(verdict: Compared, tile: str, lead: str, title: str) -> None:
    _, _, far = folds(alpha=400.0)
    _, _, near = folds()
    found = compare(far, near, "r2")
    assert found.verdict == "better"
    page = comparison_page([replace(found, verdict=verdict)], ("tree", "forest"))
    assert (page.tiles[0].value, page.lead, page.sections[0].title) == (tile, lead, title)


def test_a_tuning_shows_one_number_for_the_winner_and_what_its_luck_was_worth() -> None:
    tried = [{"alpha": alpha} for alpha in (0.0, 10.0, 1000.0)]
    fits = [folds(**params) for params in tried]
    scores = [[score.test["r2"] for score in fit[1]] for fit in fits]
    choice = choose("r2", fits[0][0], [fit[2] for fit in fits], scores)
    means, spreads = [float(np.mean(each)) for each in scores], [float(np.std(each, ddof=1)) for each in scores]
    made = tuning_page("r2", tried, means, spreads, choice)
    page = Page(made.html())
    assert made.lead == f"Take alpha = {tried[choice.chosen]['alpha']}."
    assert page.numbers["figures"][::2] == sorted(means, reverse=True)
    assert made.sections[0].title == "A close race: 2 configurations of 3 within one sd of the best"
    found = int(np.argmax(means)) + 1
    assert made.sections[1].title.startswith(f"The best came with try {found} of 3; ")
    two = tuning_page("r2", tried[:2], means[:2], spreads[:2], replace(choice, best=0, chosen=0))
    assert len(two.sections) == 1


@pytest.mark.parametrize("promote", [True, False])
def test_a_retraining_opens_with_its_decision(promote: bool) -> None:
    problem, scores, predictions = folds()
    estimates = aggregate(scores, predictions, problem)
    why = "it is as good and has seen newer rows"
    decision = Decision(
        "candidate", promote, why, "r2", 0.01, -0.02, 0.04, 0.3, words="No worse.", rule="The better stays."
    )
    data = rows()
    checks = audit(decide({"name": "orders", "columns": {"key": "row", "target": "y"}}, data), data)
    page = retraining_page(
        "orders", decision, estimates, checks, version="3", growth=["500 rows joined."], split="o 1.1"
    )
    words = Page(page.html()).words
    first = "orders version 3 is the champion" if promote else "orders stays as it is"
    apart = "R2 of the candidate minus that of the champion is 0.0100 (higher is better), [-0.0200, 0.0400]."
    assert page.lead == f"{first}: {why}. {apart}"
    assert [tile.value for tile in page.tiles[:2]] == ["promoted" if promote else "not promoted", "+0.01"]
    assert decision.rule in words
    assert "500 rows joined." in words
    warned = replace(estimates[0], warnings=("The model does no better than predicting the mean: R2 0 against 0.",))
    told = retraining_page("orders", decision, [warned], checks).findings
    assert warned.warnings[0] in [remark.message for remark in told]  # a champion that has learnt nothing is said so
    month = Judgement("unclear", ["The champion is too weak to judge."])
    weak = retraining_page("orders", decision, estimates, checks, month=month)
    assert (page.verdict, weak.verdict) == (Verdict.GOOD, Verdict.LOOK)
    assert (weak.findings[0].severity, weak.findings[0].message) == ("warning", "The champion is too weak to judge.")
