"""The learning checks find what nobody named, and are silent where there is nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from audited import N, alarms, asked, audited, plain, the, told
from evenfold.manifests import Manifest, audit, decide, extend
from evenfold.manifests.audits.learned import populations
from evenfold.manifests.audits.learned.models import predict_boosted
from evenfold.manifests.audits.learned.sample import Sample, read_sample
from evenfold.manifests.joined import Joined, JoinedLabels

Change = Callable[[pd.DataFrame, np.random.Generator], Any]


def two_folds(**columns: str) -> tuple[Manifest, pd.DataFrame]:
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"id": np.arange(n), "x": rng.normal(size=n), "g": rng.integers(0, 60, n)})
    frame["y"] = frame["x"] + rng.normal(size=n) * 0.3
    strategy = "BalancedGroupKFold" if columns else "KFold"
    spec = {"columns": {"key": "id", "target": "y", **columns}, "strategy": strategy, "params": {"n_splits": 2}}
    return decide(spec, frame), frame


def test_rows_that_the_data_lack_do_not_stop_what_learns_from_the_others() -> None:
    manifest, frame = two_folds()
    assert "absent_rows" in alarms(audit(manifest, frame.iloc[150:]))


def test_small_models_learn_in_the_same_parts_whatever_the_order_of_the_file() -> None:
    manifest, frame = two_folds(group="g")
    shuffled = frame.sample(frac=1, random_state=1)
    samples = [read_sample(Joined.of(manifest, rows), None, ()) for rows in (frame, shuffled)]
    first, second = (sample.blocks for sample in samples if isinstance(sample, Sample))
    assert np.array_equal(first, second)


@pytest.mark.parametrize(("seed", "target"), [(0, "class"), (1, "number")])
def test_rows_that_nothing_is_wrong_with_raise_no_alarm(seed: int, target: str) -> None:
    frame, random = plain(seed)
    number = frame["a"] * 3 + random.normal(size=N)
    assert alarms(audited(frame if target == "class" else frame.assign(y=number))) == {}


@pytest.mark.parametrize("n", [600, 1200])
def test_copies_measured_again_are_near_duplicates(n: int) -> None:
    frame, random = plain(n=n)
    copies = frame.iloc[: n // 10].copy()
    copies[list("abcd")] += random.normal(size=(n // 10, 4)) * 0.001
    copies["id"] = copies["id"] + "-2"
    made = audited(pd.concat([frame, copies], ignore_index=True), "near_duplicates")
    found = next(found for found in made.findings if found.check == "near_duplicates")
    assert 0.7 * n / 5 <= found.figure <= n / 5
    assert "keep them together as a group" in found.message


def test_numbers_far_below_enormous_ones_are_no_near_duplicates() -> None:
    """Values alone would put rows that are a factor apart on a heap, next to one that is a million times larger."""
    random = np.random.default_rng(53)
    values = np.exp(6 * random.normal(size=(120, 1)) + 0.3 * random.normal(size=(120, 5)))
    frame = pd.DataFrame(values, columns=list("abcde")).assign(id=range(120), y=random.integers(0, 2, 120))
    assert not told(frame, "near_duplicates")


def test_rows_of_few_values_repeat_by_chance_and_that_is_no_alarm() -> None:
    frame, random = plain()
    coarse = pd.DataFrame({name: random.integers(0, 9, N) for name in "abc"})
    coarse = coarse.assign(y=random.integers(0, 2, N), id=frame["id"])
    made = audited(coarse, "duplicate_rows", "near_duplicates", "relatives")
    assert alarms(made) == {}
    assert "repeat by chance" in made.passed["duplicate_rows"]


@pytest.mark.parametrize(
    "leak",
    [
        lambda frame, random: frame["y"] + random.normal(size=N) * 0.3,
        lambda frame, random: random.choice([-1, 1], N) * (1 + 2 * frame["y"]) + random.normal(size=N) * 0.1,
        lambda frame, random: random.normal(size=N) * np.where(frame["y"] == 1, np.nan, 1.0),
        lambda frame, random: np.where(frame["y"] == 1, "paid", random.choice(["open", "late"], N)),
        lambda frame, random: (
            pd.Timestamp("2026-01-01") + pd.to_timedelta(60 * frame["y"] + random.integers(0, 70, N), "D")
        ),
    ],
    ids=["noisy", "not monotone", "missing", "category", "date"],
)
def test_a_feature_that_gives_the_target_is_found_whatever_its_shape(leak: Change) -> None:
    frame, random = plain()
    made = audited(frame.assign(leak=leak(frame, random)), "giveaway_features", "target_like_features")
    told = alarms(made)  # where a value is missing says exactly, and so is told as the target itself
    assert "leak (AUC " in told.get("giveaway_features", told.get("target_like_features", ""))


def test_strong_features_among_their_like_are_no_alarm() -> None:
    frame, random = plain()
    for name in "abc":
        frame[name] = frame["y"] + random.normal(size=N) * 0.38
    assert alarms(audited(frame, "giveaway_features", "target_like_features", "carried_targets")) == {}


@pytest.mark.parametrize("rows_a_level", [3, 6])
def test_rates_over_all_rows_are_found_without_the_column_that_they_are_of(rows_a_level: int) -> None:
    frame, random = plain()
    codes = random.integers(0, N // rows_a_level, N)
    frame["y"] = frame["a"] + random.normal(size=N)
    honest = pd.Series(frame["a"] + random.normal(size=N)).groupby(codes).transform("mean")
    assert not told(frame.assign(rate=honest), "carried_targets")
    leaking = frame["y"].groupby(codes).transform("mean")
    assert "rate (the mean target of" in told(frame.assign(rate=leaking), "carried_targets")


def _sales(random: np.random.Generator) -> pd.DataFrame:
    """Twenty shops of 45 weeks each, whose sales follow their last weeks."""
    noise = random.normal(size=(20, 48))
    sales = noise[:, 3:] + 0.6 * noise[:, 2:-1] + 0.3 * noise[:, 1:-2]
    shop, week = np.divmod(np.arange(N), 45)
    return pd.DataFrame({"id": random.permutation(N), "shop": shop, "week": week, "y": sales.ravel()})


@pytest.mark.parametrize(
    "make", [lambda shop: shop.shift(-1), lambda shop: shop.rolling(5, center=True, min_periods=1).mean()]
)
def test_what_knows_the_next_weeks_of_its_own_shop_is_found_and_what_knows_the_last_ones_is_not(make: Any) -> None:
    random = np.random.default_rng(3)
    frame = _sales(random)
    of, noise = frame.groupby("shop")["y"], random.normal(size=N) * 0.3
    manifest = decide({"columns": {"key": "id", "target": "y", "time": "week"}}, frame)
    for later, past in ((True, of.transform(make)), (False, of.transform(lambda shop: make(shop.shift(3))))):
        rows = frame.assign(stock=past.fillna(0) + noise)
        found = alarms(asked(manifest, rows, "carried_targets")).get("carried_targets", "")
        assert ("shift(1)" in found) == later, found


def test_a_target_that_follows_a_date_nobody_named_is_found_in_random_folds() -> None:
    frame, random = plain()
    level = np.cumsum(random.normal(size=N)) / 5
    frame["y"] = level + frame["a"]
    frame["taken"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(N), "h")
    shuffled = frame.sample(frac=1, random_state=1)
    assert "ForwardChaining and time 'taken'" in told(shuffled, "times_left_out")


def test_a_fold_from_another_population_is_named() -> None:
    frame, _ = plain()
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    shifted = frame.copy()
    shifted.loc[manifest.positions(frame)[manifest.pair(2)[1]], "d"] += 1.3
    assert alarms(asked(manifest, shifted, "other_populations"))["other_populations"].startswith("fold 2 (AUC ")
    frame["part"] = manifest.in_use.column()[np.argsort(manifest.positions(frame))] + 1
    assert "; leave out 'part', which holds the fold of each row" in told(frame, "other_populations")


def test_models_stop_where_no_fold_can_be_apart_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = []

    def counted(*arguments: Any, **more: Any) -> Any:
        learnt.append(1)
        return predict_boosted(*arguments, **more)

    monkeypatch.setattr(populations, "predict_boosted", counted)
    frame = plain()[0].head(240)
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame)
    assert "other_populations" in asked(manifest, frame, "other_populations").passed
    assert len(learnt) < 5 * populations.PARTS
    frame.loc[manifest.positions(frame)[manifest.pair(2)[1]], "d"] += 4.0
    (found,) = asked(manifest, frame, "other_populations").findings
    joined = Joined.of(manifest, frame)
    sample = read_sample(joined, None, ())
    assert isinstance(sample, Sample)
    assert isinstance(joined, JoinedLabels)
    codes, columns = joined.codes[sample.rows, 0], sample.feature_columns()
    whole = {str(fold): populations._separation(sample, codes == fold, columns)[0] for fold in range(5)}
    assert found.figures["auc"] == whole


def test_a_generation_from_another_population_is_found() -> None:
    frame, _ = plain()
    first = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}}, frame.iloc[: N * 3 // 4])
    assert "other_generation" in asked(extend(first, frame).manifest, frame, "other_generation").passed
    frame.loc[N * 3 // 4 :, "d"] += 2.0
    made = asked(extend(first, frame).manifest, frame, "other_generation")
    assert "generation 1" in alarms(made)["other_generation"]


def test_locked_rows_are_not_learnt_from() -> None:
    frame, random = plain()
    manifest = decide({"strategy": "KFold", "columns": {"key": "id", "target": "y"}, "holdout": 0.2}, frame)
    locked = manifest.positions(frame)[manifest.locked_pair()[1]]
    other = frame.assign(leak=frame["y"] + random.normal(size=N) * 0.3)
    other.loc[locked, "leak"] = np.nan
    scores = [
        the("giveaway_features", asked(manifest, data, "giveaway_features")).figures
        for data in (other, other.assign(y=np.where(other.index.isin(locked), 1 - other["y"], other["y"])))
    ]
    assert scores[0] == scores[1]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("target", ["number", "class", "tiny", "gaps", "nearly one"])
def test_odd_columns_stop_no_check(target: str) -> None:
    """Enormous, empty, constant, infinite and repeated ones, and one of few values, are columns like any other."""
    n = 300
    frame, random = plain(n=n)
    rows, few = np.arange(n), np.arange(n) < 5
    odd = frame.assign(
        vast=np.where(few, 1e300, frame["d"]), steep=np.exp(frame["a"] * 20), endless=np.where(few, np.inf, frame["b"]),
        whole=random.integers(0, 2**62, n), again=frame["c"] * 2 + 1, constant=3.0, empty=np.nan, bits=rows % 3 == 0,
        gaps=np.where(random.random(n) < 0.6, np.nan, frame["a"]), number=rows, rare=np.where(rows == 7, 1.0, np.nan),
        paid=frame["y"] + 0.3 * random.normal(size=n),
    )  # fmt: skip
    targets = {
        "number": frame["a"] + random.normal(size=n), "class": frame["y"], "tiny": frame["b"] * 1e-12,
        "gaps": np.where(random.random(n) < 0.3, np.nan, frame["c"]), "nearly one": (rows == 7).astype(float),
    }  # fmt: skip
    made = audited(odd.assign(y=targets[target]))
    assert all(found.ran for found in made.findings)
    assert target != "class" or "giveaway_features" in alarms(made)


def test_what_was_learnt_already_is_not_learnt_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit of a model's features, after that of the split, fits anew only what differs, and finds the same."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    fits: list[str] = []
    fit = HistGradientBoostingRegressor.fit
    again = lambda self, *data, **more: fits.append("") or fit(self, *data, **more)  # noqa: E731
    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", again)
    frame, random = plain(seed=17, n=400)
    frame["leak"] = frame["y"] + random.normal(size=400) * 0.3
    checks = ("giveaway_features", "unnamed_entities", "other_populations")
    first, learnt = audited(frame, *checks), len(fits)
    assert learnt > 3
    assert audited(frame, *checks) == first
    assert len(fits) == learnt
    frame.loc[frame.index[0], "a"] += 1.0
    changed = audited(frame, *checks)
    assert len(fits) > learnt
    assert alarms(changed).keys() == alarms(first).keys() == {"giveaway_features"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda frame, noise: frame["a"] + frame["b"] - 2 * frame["c"] + noise * 0.05, "a + b"),
        (lambda frame, noise: np.exp(frame["a"]) * np.exp(2 * frame["b"]), "up to a factor"),
        (lambda frame, noise: ((frame["a"] > 1) | (frame["b"] > 1)).astype(int), ""),
        (lambda frame, noise: frame["a"] + frame["b"] + noise * 0.5, ""),
    ],
    ids=["sum", "product", "no sum", "sum with noise"],
)
def test_a_target_that_features_make_up_is_found(made: Change, said: str) -> None:
    """Though no single one of them looks like it; what is only predicted well is no alarm."""
    frame, random = plain()
    frame["y"] = made(frame, random.normal(size=N))
    if said == "up to a factor":
        frame[["a", "b"]] = np.exp(frame[["a", "b"]])
    found = told(frame, "computed_target")
    assert bool(found) == bool(said)
    assert said in found


def test_rows_without_any_value_repeat_nothing() -> None:
    frame, _ = plain()
    frame.loc[:200, [*"abcd", "kind"]] = None
    assert not told(frame, "duplicate_rows")
