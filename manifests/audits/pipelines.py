"""The code that makes features, asked by changing its input: what moves that a fold must not see?"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from evenfold.manifests.fields import Strict
from evenfold.manifests.joined import Joined
from evenfold.manifests.tables.canonical import amount, listed
from evenfold.splitters import SplitError, Stream
from evenfold.splitters.errors import reason_of
from evenfold.splitters.naming import named
from evenfold.splitters.numbers import AUDITING
from evenfold.splitters.untrusted import FEATURES, resolve
from numpy.typing import NDArray

from .findings import CheckOutcome, Found, needed
from .sample import in_one_thread, predict_boosted

MOST_SCORED, PIECES = 4_000, 4
LEAST_ROWS = 40
Rows = NDArray[np.int64]
Question = Literal["target_of_others", "features_of_others", "other_test_rows", "rows_made", "own_target", "unstable"]
QUESTIONS: tuple[Question, ...] = get_args(Question)


class Leak(Strict):
    """Columns that moved and must not, some rows by position, and the worth in points of R², if known."""

    question: Question
    severity: Literal["error", "warning", "note"]
    message: str
    columns: list[str] = []
    rows: list[int] = []
    points: float | None = None


def path_of_build(build: Any) -> str:
    """Return the import path of a function that builds features; SplitError where it may not be loaded, or is none."""
    if not (isinstance(build, str) or inspect.isroutine(build)):
        kind = type(build).__name__
        raise SplitError(f"a value of type {kind} is no function; pass build(train, test) or build(frame).")
    path = named(build) if callable(build) else build
    resolve(path, FEATURES)  # before anything is fitted
    return path


def leaks_of(build: Any, joined: Joined) -> list[Leak] | SplitError:
    """Return what the features of a build know that they must not, of the rows of a split that have a target."""
    columns = joined.columns
    name = f"{build.__module__}:{build.__qualname__}" if inspect.isroutine(build) else type(build).__name__
    if columns.target is None:
        return SplitError("the split names no target, which is what features must not know; name it (--target).")
    data, key, group = joined.source.table().to_pandas().dropna(subset=[columns.target]), columns.key, columns.grouped
    try:
        leaks = audit_pipeline(build, data, key=key, target=columns.target, group=group, time=columns.time)
    except SplitError as error:
        return SplitError(f"{name} could not be audited: {error}")
    return [leak.model_copy(update={"message": f"{name}: {leak.message}"}) for leak in leaks]


def outcome_of(question: Question, leaks: list[Leak] | SplitError) -> CheckOutcome:
    """Return the leaks of one question as a finding; its figure are the columns that know what they must not."""
    if isinstance(leaks, SplitError):  # the first question says so
        needed(question == QUESTIONS[0], "the build could not be audited")
        raise leaks
    leaks = [leak for leak in leaks if leak.question == question]
    if not leaks:
        return None
    columns = list(dict.fromkeys(column for leak in leaks for column in leak.columns))
    figures = {"columns": columns, "rows": leaks[0].rows, "points": leaks[0].points}
    message, severities = "; ".join(leak.message for leak in leaks), {leak.severity for leak in leaks}
    harmless, fails = severities == {"note"}, "error" in severities
    return Found(max(len(columns), 1), message, figures, harmless=harmless, fails=fails)


def audit_pipeline(
    build: Any, data: pd.DataFrame, *, key: str | list[str], target: str,
    group: str | list[str] | None = None, time: str | None = None,
) -> list[Leak]:  # fmt: skip
    """Return what features know that they must not, by building them some twenty times from changed data.

    ``build`` is ``build(train, test)``, ``build(frame)``, or a transformer or pipeline of scikit-learn (a copy is
    fitted to training rows). Test rows are the later two fifths by ``time``, half of the groups, or half of the rows
    drawn at random. Changed are the targets and the features of the test rows, which may move no training feature; the
    targets of test rows and half of these rows, which may move no feature of the (other) test rows; and, eight times,
    the targets of a fifteenth of the training rows, which the features of these rows may not follow (out-of-fold
    encoders do not). Of rows that were made before any split, one that is changed may reach one. What it is worth: the
    R² of a small model on the test rows, with features built of all rows, less that with a quarter of them built at a
    time, their targets exchanged; below a point it is a note. Raises SplitError for too few rows, and a failing build.
    """
    data = data.reset_index(drop=True)
    if len(data) < LEAST_ROWS:
        raise SplitError(f"{len(data)} rows are too few to change some and watch the others; {LEAST_ROWS} would do.")
    keys, groups = ([names] if isinstance(names, str) else [*(names or [])] for names in (key, group))
    if time is not None:
        order = data[time].rank(method="dense").to_numpy()
        late = order > 0.6 * order.max()
    else:
        codes = data.groupby(groups, dropna=False).ngroup().to_numpy() if groups else np.arange(len(data))
        n = int(codes.max()) + 1
        late = (Stream(0, AUDITING, 20).permutation(n) < n // 2)[codes]
    inputs: list[Any] = [name for name in data if name not in {*keys, target, *groups, time}]
    build, sides = build() if isinstance(build, type) else build, (np.flatnonzero(~late), np.flatnonzero(late))
    look = _Look(build, data, *sides, inputs, [*keys, target], target, time is not None)
    with warnings.catch_warnings(), in_one_thread():
        warnings.simplefilter("ignore")
        return [*look.leaks()]


@dataclass(frozen=True, eq=False)
class _Look:
    """A build beside the rows that it is asked about; ``apart`` are the columns that are no feature."""

    build: Any
    data: pd.DataFrame
    train: Rows
    test: Rows
    inputs: list[str]
    apart: list[str]
    target: str
    in_time: bool

    @cached_property
    def whole(self) -> bool:
        """True of a build that takes all rows at once."""
        try:
            inspect.signature(self.build).bind("all rows at once")
        except TypeError:
            return False
        return not hasattr(self.build, "fit")

    def built(self, data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the features of training and test rows; all rows and none where as many as went in do not come out."""
        from sklearn.base import clone

        try:
            if self.whole:
                frame = self._features(self.build(data.copy()))
                is_whole = len(frame) == len(data)
                return (frame.iloc[self.train], frame.iloc[self.test]) if is_whole else (frame, frame[:0])
            train, test = data.iloc[self.train].copy(), data.iloc[self.test].copy()
            if not hasattr(self.build, "fit"):
                one, other = self.build(train, test)
                return self._features(one), self._features(other)
            pipeline = clone(self.build)
            pipeline = pipeline[:-1] if hasattr(pipeline, "steps") and not hasattr(pipeline, "transform") else pipeline
            X = self._features(pipeline.fit_transform(train.drop(columns=self.apart), train[self.target]))
            return X, self._features(pipeline.transform(test.drop(columns=self.apart)))
        except (Exception, SystemExit) as error:
            raise SplitError(f"the build stopped with {type(error).__name__}: {reason_of(error)}") from error

    def _features(self, table: Any) -> pd.DataFrame:
        table = table[0] if isinstance(table, tuple) else table
        table = table.toarray() if hasattr(table, "toarray") else table
        if np.ndim(table) not in (1, 2) or isinstance(table, dict):
            raise SplitError(f"it returned a value of type {type(table).__name__}, and a table of features is needed.")
        frame = table if isinstance(table, pd.DataFrame) else pd.DataFrame(np.asarray(table)).add_prefix("column ")
        frame = frame.rename(columns=str)
        if frame.columns.has_duplicates:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise SplitError(f"it returned two columns {twice!r}; name them apart.")
        return frame.drop(columns=self.apart, errors="ignore").reset_index(drop=True)

    def leaks(self) -> Iterator[Leak]:
        first, tested = self.built(self.data)
        if noise := _moved(first, self.built(self.data)[0]):
            what = f"two builds of the same rows differ in {listed(noise)}; fix the seeds."
            yield Leak(question="unstable", severity="note", columns=list(noise), message=what)
        if self.whole and len(first) + len(tested) != len(self.data):
            yield from self._rows_made(first)
            return
        of, what = "later rows" if self.in_time else "test rows", "training features move with the"
        train, test = self.built(_shaken(self.data, self.test, [self.target]))
        if moved := _moved(first, train, noise):
            yield self._leak("target_of_others", moved, self.train, f"{what} targets of {of}")
        if not self.whole and (moved := _moved(tested, test, noise)):
            yield self._leak("own_target", moved, self.test, "features of test rows move with their targets")
        if moved := _moved(first, self.built(_shaken(self.data, self.test, self.inputs))[0], noise):
            yield self._leak("features_of_others", moved, self.train, f"{what} features of {of}")
        if not self.whole and not self.in_time:
            half = Stream(0, AUDITING, 21).permutation(len(self.test))[: len(self.test) // 2]
            batch = self.built(_shaken(self.data, self.test[half], self.inputs))[1]
            here, there = (table.drop(half, errors="ignore") for table in (tested, batch))
            if moved := _moved(here, there, noise):
                what, rest = "features of test rows move with other ones", np.delete(self.test, half)
                yield self._leak("other_test_rows", moved, rest, what)
        if follows := self._own_target(first):
            yield self._leak("own_target", follows, self.train, "training features follow their own row's target")

    def _leak(self, question: Any, moved: dict[str, float], rows: Rows, what: str) -> Leak:
        top = sorted(moved, key=lambda name: -moved[name])
        listing = [f"{name} ({f'{moved[name]:.2g} sd' if moved[name] < np.inf else 'comes or goes'})" for name in top]
        points, error = self.worth
        cost = f"; worth {points:.1f} points of R²" if points is not None and points > 0 else ""
        cure = "fit it on the training rows alone"
        if question == "own_target":
            cure = "encode it out of fold"
        elif self.in_time:
            cure = "shift it by one, so that it ends before the row"
        severity: Any = "note" if question == "features_of_others" and not self.in_time else "warning"
        if question in ("target_of_others", "own_target") or (points or 0.0) >= max(1.0, 2.0 * error):
            severity = "error"
        message = f"{what}: {amount(len(moved), 'column')}, {listed(listing, most=4)}{cost}; {cure}."
        few = rows[:10].tolist()
        return Leak(question=question, severity=severity, message=message, columns=top, rows=few, points=points)

    @cached_property
    def worth(self) -> tuple[float | None, float]:
        """The points of R² that test rows gain by what was built of all rows, and their standard error."""
        y = _number(self.data[self.target])
        if not pd.api.types.is_numeric_dtype(self.data[self.target]) or np.unique(y).size <= 10:
            y = (y == pd.Series(y).mode()[0]).astype(np.float64)
        naive, honest = np.zeros(len(y)), np.zeros(len(y))
        for piece, guess in ((self.test, naive), *((self.test[i::PIECES], honest) for i in range(PIECES))):
            rows = np.sort(np.concatenate([self.train, piece]))
            data = self.data.iloc[rows].reset_index(drop=True)
            part = replace(self, train=np.searchsorted(rows, self.train), test=np.searchsorted(rows, piece))
            if guess is honest:
                data[self.target] = _exchanged(data[self.target], part.test)
            one, other = part.built(data)
            if len(one) != len(part.train) or len(other) != len(piece) or not len(one.columns):
                return None, 0.0
            X, Z = (_numbers(frame[[*one]]).to_numpy() for frame in (one, other))
            outcome = y[self.train[:MOST_SCORED]]
            guess[piece] = predict_boosted(X[:MOST_SCORED], outcome, Z, [False] * X.shape[1])
        gain = np.square(y - honest)[self.test] - np.square(y - naive)[self.test]
        scale = 100.0 / max(float(np.var(y[self.test])), 1e-12)
        return float(gain.mean() * scale), float(gain.std() * scale / np.sqrt(gain.size))

    def _rows_made(self, first: pd.DataFrame) -> Iterator[Leak]:
        if len(first) < len(self.data):
            what = f"{len(self.data):,} rows became {len(first):,}, and nothing says which: no other question was asked"
            what += "; leave rows out before the split, or inside the training fold."
            yield Leak(question="rows_made", severity="warning", message=what)
            return

        def rows_of(frame: pd.DataFrame) -> pd.Series:
            return pd.util.hash_pandas_object(frame.round(9).astype(str), index=False)

        whole, reach = rows_of(first), []
        drawn, targets = Stream(0, AUDITING, 23).permutation(len(self.data)), self.data[self.target]
        rare = drawn[(targets != targets.mode()[0]).to_numpy()[drawn]]  # what is evened out is mostly made of these
        for row in [*drawn[:6], *rare[:6]]:
            again = rows_of(self.built(_shaken(self.data, np.array([row]), self.inputs))[0])
            reach.append(int((~again.isin(whole)).sum()))
        if max(reach) > 1:
            what = f"{len(self.data):,} rows became {len(first):,}, and one row reaches up to {max(reach)} of them"
            what += ", on both sides of a split; resample inside the training fold."
            yield Leak(question="rows_made", severity="error", message=what)

    def _own_target(self, first: pd.DataFrame) -> dict[str, float]:
        """Return the features that follow their own row's target, by correlation over rebuilds with some exchanged."""
        from scipy.stats import pearsonr

        own, y, steps = _numbers(first), _number(self.data[self.target]), list[pd.DataFrame]()
        for i in range(8):
            stream = Stream(0, AUDITING, 24, i)
            some = stream.permutation(len(self.train))[: max(4, len(self.train) // 15)]
            # Drawn one by one: what a row is given goes with nothing but itself, not even with what it had.
            drawn = self.train[stream.below(len(self.train), some.size)]
            targets = _exchanged(self.data[self.target], self.train[some], drawn)
            again = _numbers(self.built(self.data.assign(**{self.target: targets}))[0])
            if len(again) == len(first) == len(self.train):
                steps.append((again - own).iloc[some].assign(**{self.target: y[drawn]}))
        if not steps:
            return {}
        follows, differences = dict[str, float](), pd.concat(steps).replace([np.inf, -np.inf], np.nan)
        for name in first:
            dx, dy = differences[[name, self.target]].dropna().to_numpy().T
            varies = dx.size > 20 and dx.std() > 1e-9 < dy.std()
            if varies and float(pearsonr(dy, dx).pvalue) * first.shape[1] < 0.03 / 5:  # of five questions
                follows[str(name)] = float(np.abs(dx).mean() / max(np.nanstd(own[name]), 1e-12))
        return follows


def _exchanged(column: pd.Series, rows: Rows, of: Rows | None = None) -> pd.Series:
    """Return a column in which these rows have the values of others, or one another's."""
    values = column.to_numpy(copy=True)
    values[rows] = values[rows[Stream(0, AUDITING, 26).permutation(rows.size)] if of is None else of]
    return pd.Series(values, index=column.index).astype(column.dtype)


def _number(column: pd.Series) -> NDArray[np.float64]:
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return pd.factorize(column, sort=False)[0].astype(np.float64)


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({name: _number(frame[name]) for name in frame})


def _shaken(data: pd.DataFrame, rows: Rows, columns: list[str]) -> pd.DataFrame:
    """Return a copy with other values in some rows: another mean, spread and mix of levels, as of other rows."""
    changed, stream = data.copy(), Stream(0, AUDITING, 25)
    for name in columns:
        column = data[name]
        own, draws = column.iloc[rows], stream.uniform(2 * rows.size).reshape(2, -1)
        if pd.api.types.is_datetime64_any_dtype(column):
            new: Any = own + pd.Timedelta(days=30)
        elif pd.api.types.is_float_dtype(column) or (pd.api.types.is_integer_dtype(column) and column.nunique() > 20):
            new = own * (1.3 + 0.4 * draws[0]) + column.std() * (0.5 + draws[1])
            if pd.api.types.is_integer_dtype(column):
                new = new.round().clip(column.min(), column.max())
        elif not column.dropna().map(pd.api.types.is_hashable).all():
            continue
        else:
            levels = column.dropna().unique()
            turned = own.map(dict(zip(levels, np.roll(levels, 1), strict=True)))
            new = own.where((draws[0] < 0.4) & (rows.size > 1), turned)
        whole = column.astype(object)
        whole.iloc[rows] = new.astype(object)
        changed[name] = whole.astype(column.dtype)
    return changed


def _moved(one: pd.DataFrame, other: pd.DataFrame, noise: dict[str, float] | None = None) -> dict[str, float]:
    """Return how far columns moved, in standard deviations, or the share of cells; what comes or goes by infinity."""
    if len(one) != len(other):
        return {"number of rows": float("inf")}
    moved: dict[str, float] = dict.fromkeys(one.columns.symmetric_difference(other.columns), float("inf"))
    for name in one.columns.intersection(other.columns):
        a, b = one[name], other[name]
        if pd.api.types.is_numeric_dtype(a) and pd.api.types.is_numeric_dtype(b):
            x, z = _number(a), _number(b)
            far, size = np.abs(np.nan_to_num(x - z)).mean(), (np.isnan(x) != np.isnan(z)).mean()
            size += far / (np.nanstd(x) + 1e-12) if far > 1e-9 * (np.nanmean(np.abs(x)) + 1e-12) else 0.0
        else:
            size = ((a.astype(str).to_numpy() != b.astype(str).to_numpy()) & ~(a.isna() & b.isna())).mean()
        if size > 1e-7 + 5.0 * (noise or {}).get(name, 0.0):
            moved[str(name)] = float(size)
    return moved
