"""The bootstrap's numbers are those of their definitions, also at the edges."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from evenfold.estimates import METRICS, Answered, BootstrapEstimate, bootstrap_estimate, no_information_rate
from evenfold.estimates.metrics.record import Responses
from evenfold.estimates.metrics.scoring import score
from evenfold.splitters import Bootstrap, Stream
from sklearn.metrics import f1_score, get_scorer


def of_resamples(apparent: Any, resamples: Any, gamma: float) -> BootstrapEstimate:
    """Return the estimates of a loss per row, and of the rows that each resample left out with theirs."""
    sums, counts, means = np.zeros(len(apparent)), np.zeros(len(apparent)), []
    for rows, losses in resamples:
        np.add.at(sums, np.asarray(rows, dtype=int), np.asarray(losses, dtype=float))
        np.add.at(counts, np.asarray(rows, dtype=int), 1)
        means.append(np.mean(losses))
    err1 = (sums[counts > 0] / counts[counts > 0]).mean()
    return bootstrap_estimate(float(np.mean(apparent)), float(err1), float(np.mean(means)), gamma)


def by_definition(apparent: Any, resamples: list[Any], gamma: float) -> dict[str, float]:
    """The estimates spelt out, row by row and resample by resample."""
    err = sum(apparent) / len(apparent)
    per_row = []
    for i in range(len(apparent)):
        losses = [loss for rows, lost in resamples for row, loss in zip(rows, lost, strict=True) if row == i]
        if losses:
            per_row.append(sum(losses) / len(losses))
    err1 = sum(per_row) / len(per_row)
    capped = min(err1, gamma) if gamma > err else err1
    rate = max(0.0, min(1.0, (capped - err) / (gamma - err))) if min(err1, gamma) > err else 0.0
    weight = 0.632 / (1 - 0.368 * rate)
    means = [sum(lost) / len(lost) for _, lost in resamples if len(lost)]
    return {
        "err": err,
        "err1": err1,
        "oob": sum(means) / len(means),
        "gamma": gamma,
        "relative_overfitting": rate,
        "weight": weight,
        "e632": 0.368 * err + 0.632 * err1,
        "e632plus": (1 - weight) * err + weight * capped,
    }


@pytest.mark.parametrize(("seed", "gamma"), [(0, 0.1), (1, 0.3), (2, 0.6), (3, 5.0)])
def test_every_number_is_its_definition(seed: int, gamma: float) -> None:
    stream = Stream(seed)
    apparent = stream.uniform(20) * 0.5
    resamples = [(rows, stream.uniform(rows.size)) for _, rows in Bootstrap(15, random_state=seed).split(apparent)]
    made = of_resamples(apparent, resamples, gamma)
    for name, value in by_definition(apparent.tolist(), resamples, gamma).items():
        assert getattr(made, name) == pytest.approx(value, abs=1e-12), name


ONE = [([0, 1], [0.4, 0.4])]


@pytest.mark.parametrize(
    ("apparent", "gamma", "rate", "e632plus", "why"),
    [
        ([0.5, 0.5], 0.9, 0.0, 0.368 * 0.5 + 0.632 * 0.4, "err1 <= err: no overfitting, .632"),
        ([0.3, 0.3], 0.2, 0.0, 0.368 * 0.3 + 0.632 * 0.4, "gamma <= err: no overfitting, .632"),
        ([0.2, 0.2], 0.3, 1.0, 0.3, "err1 >= gamma: all of it, gamma"),
        ([0.4, 0.4], 0.4, 0.0, 0.4, "all equal"),
        ([0.0, 0.0], 0.4, 1.0, 0.4, "err1 == gamma"),
    ],
)
def test_the_edges_of_the_overfitting_rate(
    apparent: list[float], gamma: float, rate: float, e632plus: float, why: str
) -> None:
    """R' stays in [0, 1], and the estimate between .632 and gamma."""
    made = of_resamples(apparent, ONE, gamma)
    assert made.relative_overfitting == rate, why
    assert made.e632plus == pytest.approx(e632plus), why


def test_a_model_that_knows_its_rows_by_heart_is_warned_about() -> None:
    """.632 is then far too low; where .632+ says the same, as for a good model of small errors, nobody is."""
    assert "read .632+" in of_resamples([0.0, 0.0], ONE, 0.5).note
    assert of_resamples([0.3, 0.3], ONE, 0.5).note == ""
    good = of_resamples([0.012, 0.012], [([0, 1], [0.028, 0.028])], 0.5)
    assert good.e632plus == pytest.approx(good.e632, abs=0.0003)
    assert good.note == ""


def test_scores_and_losses_give_the_same_answer_in_their_own_units() -> None:
    losses = bootstrap_estimate(0.2, 0.4, 0.4, 0.6)
    other, scores = bootstrap_estimate(1.2, 1.4, 1.4, 1.6), losses.scores(1.0)
    assert losses.relative_overfitting == pytest.approx(0.5)
    assert (other.relative_overfitting, other.weight) == pytest.approx((losses.relative_overfitting, losses.weight))
    assert scores.e632plus == pytest.approx(1 - losses.e632plus)
    assert (scores.err, scores.oob, scores.gamma) == (pytest.approx(0.8), pytest.approx(0.6), pytest.approx(0.4))


def nearest_neighbour(seed: int, n: int = 100, n_resamples: int = 50) -> Any:
    """1-NN on labels that have nothing to do with the features: the truth is .5."""
    stream = Stream(seed)
    points = stream.uniform(2 * n).reshape(n, 2)
    labels = np.arange(n)[stream.permutation(n)] % 2
    apart = np.square(points[:, None, :] - points[None, :, :]).sum(axis=2)

    def resamples() -> Iterator[Any]:
        for train, test in Bootstrap(n_resamples, random_state=seed).split(points):
            said = labels[train[np.argmin(apart[np.ix_(test, train)], axis=1)]]
            yield test, (said != labels[test]).astype(float)

    # 1-NN predicts its own training rows without fault, so its predictions are the labels: gamma is 1/2 exactly.
    return of_resamples(np.zeros(n), resamples(), 0.5)


def test_one_nearest_neighbour_on_random_labels() -> None:
    """.632 believes the apparent error of zero and says about .32; .632+ says nearly .5, and never more."""
    made = [nearest_neighbour(seed) for seed in range(40)]
    assert 0.305 <= np.mean([each.e632 for each in made]) <= 0.333
    assert 0.46 <= np.mean([each.e632plus for each in made]) <= 0.495
    assert all(each.e632 <= each.gamma and each.e632plus <= each.gamma for each in made)


CLASSES = ("a", "b", "c")


def said_of_classes(n: int = 60, classes: tuple[str, ...] = CLASSES) -> tuple[Responses, Any]:
    stream = Stream(4)
    proba = stream.uniform(n * len(classes)).reshape(n, len(classes)) + 0.05
    proba /= proba.sum(axis=1, keepdims=True)
    y = np.asarray(classes, dtype=object)[np.r_[np.arange(len(classes)), stream.below(len(classes), n - len(classes))]]
    return Responses({"predict": np.asarray(classes)[proba.argmax(axis=1)], "predict_proba": proba}, classes), y


def said_of_numbers(n: int = 60) -> tuple[Responses, Any]:
    stream = Stream(5)
    return Responses({"predict": stream.uniform(n) + 0.1}), stream.uniform(n) + 0.2


def said_for(metric: str) -> tuple[Responses, Any, tuple[str, ...]]:
    if metric in ("accuracy", "neg_log_loss", "neg_brier_score", "balanced_accuracy", "f1_macro"):
        return *said_of_classes(), CLASSES
    return *said_of_numbers(), ()


@pytest.mark.parametrize("metric", [name for name, metric in METRICS.items() if metric.loss])
def test_the_mean_loss_is_scikit_learns_score(metric: str) -> None:
    answers, y, classes = said_for(metric)
    loss, weights = METRICS[metric].loss, Stream(6).uniform(y.size)
    losses, score, X = loss.of(Answered(answers, y, classes)), get_scorer(metric), np.empty((y.size, 0))
    assert loss.score(losses.mean()) == pytest.approx(score(answers, X, y), abs=1e-12)
    weighted = loss.score(np.average(losses, weights=weights))
    assert weighted == pytest.approx(score(answers, X, y, sample_weight=weights), abs=1e-12)


def test_two_classes_have_half_the_brier_score_and_an_unknown_class_has_probability_zero() -> None:
    answers, y = said_of_classes(classes=("no", "yes"))
    answers, y = Responses(answers.answers, (0, 1)), (y == "yes").astype(int)
    mean = METRICS["neg_brier_score"].loss.of(Answered(answers, y, (0, 1))).mean()
    assert -mean == pytest.approx(get_scorer("neg_brier_score")(answers, np.empty((y.size, 0)), y), abs=1e-12)
    answers = Responses({"predict_proba": np.array([[0.5, 0.5]])}, ("a", "c"))
    loss = METRICS["neg_log_loss"].loss.of(Answered(answers, np.array(["b"], dtype=object), CLASSES))
    assert loss[0] == pytest.approx(-np.log(np.finfo(float).eps))


OF_PAIRS = "accuracy neg_brier_score balanced_accuracy neg_log_loss neg_mean_squared_error neg_mean_absolute_error r2"


@pytest.mark.parametrize(("metric", "weighted"), [(name, i % 2 == 0) for i, name in enumerate(OF_PAIRS.split())])
def test_the_no_information_rate_is_the_mean_over_all_pairs(metric: str, weighted: bool) -> None:
    answers, y, classes = said_for(metric)
    n = y.size
    weights = Stream(7).uniform(n) if weighted else np.ones(n)
    truth, said = np.repeat(np.arange(n), n), np.tile(np.arange(n), n)
    pairs = Responses({name: values[said] for name, values in answers.answers.items()}, classes)
    expected = get_scorer(metric)(pairs, np.empty((n * n, 0)), y[truth], sample_weight=weights[truth] * weights[said])
    made = no_information_rate(metric, Answered(answers, y, classes, weights if weighted else None))
    assert made == pytest.approx(expected, abs=1e-12)


def test_other_metrics_are_permuted_and_auc_is_a_half() -> None:
    """Seeded, so the same every time."""
    answers, y = said_of_classes(30)
    assert no_information_rate("roc_auc_ovr", Answered(answers, y, CLASSES)) == 0.5
    rates = [no_information_rate("f1_macro", Answered(answers, y, CLASSES), seed=seed) for seed in (0, 0, 1)]
    assert rates[0] == rates[1] != rates[2]
    assert rates[0] == pytest.approx(1 / 3, abs=0.05)


def test_classes_that_a_model_has_not_learnt_are_told_apart() -> None:
    y, said = np.array(["a", "b", "c", "d"]), np.array(["a", "b", "a", "b"])
    made = score("f1_macro", Answered(Responses({"predict": said}, ("a", "b")), y))
    assert made == f1_score(y, said, average="macro")


@pytest.mark.parametrize(("y", "said"), [([1.0, 1.0], [1.0, 1.0]), ([1.0, 1.0], [1.0, 2.0]), ([1.0], [2.0])])
def test_r2_of_a_constant_truth_follows_scikit_learn(y: list[float], said: list[float]) -> None:
    """1 where every prediction is right, else 0; undefined for one row."""
    answers = Responses({"predict": np.array(said)})
    rows = Answered(answers, np.array(y))
    ours = METRICS["r2"].quick(rows)
    assert len(y) == 1 or METRICS["r2"].influence(rows)[0] == ours
    assert ours == pytest.approx(get_scorer("r2")(answers, np.empty((len(y), 0)), np.array(y)), nan_ok=True)
