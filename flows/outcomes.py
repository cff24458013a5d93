"""Results of flows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from evenfold.estimates import Choice, Comparison, Confusion, Estimate, FoldScore, Interval, ModelSpec
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import figures_of
from evenfold.estimates.selection import NestedChoice
from evenfold.manifests import Audit, BalanceReport, Manifest, ManifestCV
from evenfold.manifests.tables.keys import WhichRows
from evenfold.reports.evaluations import words
from evenfold.reports.evaluations.page import confusion_section
from evenfold.reports.evaluations.pictures import importance_words
from evenfold.reports.evaluations.studies import Segment
from evenfold.reports.texts import FoldState, Step, top_of_split
from evenfold.splitters.base import ONE_OF
from evenfold.splitters.errors import Displayed, EvenfoldError, amount
from evenfold.tasks.outcomes import Growth, Measured, Outcome, SplitRef
from evenfold.tasks.record.reading import read_evaluation
from evenfold.tasks.record.tracker import tracker_of

from evenfold import flows, reports


class GateError(EvenfoldError, RuntimeError):
    """A gate of the audit failed: nothing was trained, compared or promoted."""


class WaitingError(GateError):
    """A person was asked, and has not answered yet: the same request goes on once there is an answer."""


class SplitOutcome(Displayed, Outcome):
    """The result of splitting."""

    split: SplitRef
    cached: bool
    balance: BalanceReport
    run_id: str
    audit: Audit | None = None

    @property
    def summary(self) -> str:
        """The split and what its audit found, in one line."""
        split = self.split
        what = f"{split.n_rows:,} rows, {split.n_splits:,} splits ({split.strategy}), id {split.split_id[:12]}"
        findings = self.audit.sentences if self.audit else []
        return "; ".join([f"Split {split.name} {split.version}: {what}", *findings])

    def as_page(self) -> reports.Page:
        """Return what is told of it."""
        return top_of_split(self.split.manifest(), self.balance, self.audit)

    def as_cv(self, frame: Any, rows: WhichRows = "all") -> ManifestCV:
        """Return the splits as a ``cv`` for scikit-learn; see ``Manifest.as_cv``."""
        return self.split.manifest().as_cv(frame, rows)


class Planned(Displayed, Outcome):
    """The steps that ``evaluate`` or ``retrain`` would take, in order; ``champion``: the fits of its recipe."""

    name: str
    steps: list[Step]

    @property
    def summary(self) -> str:
        """Say in a line each which steps would be computed."""
        width = max(len(step.name) for step in self.steps)
        steps = [f"  {step.name:{width}}  {step.words}" for step in self.steps]
        return "\n".join([f"Plan for {self.name}; nothing was run or recorded.", *steps])


class ExtendOutcome(Growth):
    """The result of an extension."""

    balance: BalanceReport
    run_id: str

    @property
    def cached(self) -> bool:
        """True where this very extension was there before."""
        return self.split.reused


class Evaluation(Measured):
    """The result of an evaluation: its split, every score, the estimates, and where they are recorded.

    ``states``: where the fit of each fold, or draw, came from. ``since``: which code of the user's has changed since
    the last run of the same, where this one was made for that. ``promised``: what the folds said, of a look.
    """

    cached: bool
    balance: BalanceReport
    split_run_id: str
    run_id: str
    scores: list[FoldScore]
    apparent: FoldScore | None
    n_cached: int
    n_fits: int
    seconds: float
    states: list[FoldState] = []
    since: str = ""
    look: int | None = None
    looks_left: int | None = None
    promised: list[Estimate] = []
    audit: Audit | None = None

    @property
    def metrics(self) -> dict[str, float]:
        """The value of each metric; of a bootstrap that of .632+."""
        return {estimate.metric: estimate.value for estimate in self.estimates}

    @property
    def manifest(self) -> Manifest:
        """The folds; raises SplitError where their manifest is damaged."""
        return self.split.manifest()

    def to_frame(self) -> pd.DataFrame:
        """Return the estimates as a table: metric, method, value, the ends of the interval, and so on, in columns."""
        return pd.DataFrame(map(figures_of, self.estimates))

    def folds(self) -> pd.DataFrame:
        """Return the test scores of each fold or draw as a table, with how many rows it trains on and tests."""
        numbers = ("name", "repeat", "fold", "n_train", "n_test")
        return pd.DataFrame([{each: getattr(score, each) for each in numbers} | score.test for score in self.scores])

    def predictions(self) -> pd.DataFrame:
        """Return every row's prediction of the model that did not see it, by its key; SplitError for draws."""
        return read_evaluation(self.run_id).predictions

    def page(self) -> Path:
        """Return where the page of its run lies, an HTML file: fetched where it is recorded elsewhere."""
        return tracker_of(self.split).fetch(self.run_id, "report.html")

    def estimator(self) -> Any:
        """Return the model, fitted on every row that is not locked; it is fitted once, and kept."""
        from evenfold.tasks.fits import fit_final
        from evenfold.tasks.record.models.versions import load_final
        from evenfold.tasks.steps import finished_here

        return load_final(finished_here(fit_final, self.split, self.model).value)[0]

    def compare(self, other: Evaluation | str, **fields: Any) -> list[Comparison]:
        """Return how ``other``, or the run of this id, does beside it, by metric; see ``evenfold.flows.compare``."""
        run_id = other if isinstance(other, str) else other.run_id
        comparisons: list[Comparison] = flows.compare(self.run_id, run_id, **{"engine": "plain", **fields})
        return comparisons

    @property
    def summary(self) -> str:
        """The model, the split, every score, what is doubtful about them, and the columns left out, in one line."""
        warnings = [warning.removesuffix(".") for estimate in self.estimates for warning in estimate.warnings]
        findings = self.audit.sentences if self.audit else []
        return self.scored(*dict.fromkeys(warnings), words.left_out_words(self.left_out), *findings)

    def as_page(self) -> reports.Page:
        """Return what is told of it."""
        split, estimates, promised = self.split, self.estimates, self.promised
        rows = f"{split.n_rows:,} rows, {amount(split.n_splits, ONE_OF[split.kind])}"
        left = "" if self.looks_left is None else f", and {self.looks_left or 'none'} left"
        folds = [f"Promised by the folds: {words.scores_line(promised)}.", *words.kept_promises(estimates, promised)]
        notes = [
            f"This is look {self.look} at the locked part of {split.name}{left}; it is recorded." if self.look else "",
            *(folds if promised else []), words.look_words(estimates) if self.look else "",
            importance_words(self.scores, self.model.metrics[0]), words.encoding_words(self.encoded),
            *words.notes_of(estimates), words.left_out_words(self.left_out),
        ]  # fmt: skip
        lead = f"{'The locked rows' if self.look else rows}, {amount(len(self.features), 'feature')}."
        came = [state for state in self.states if state != "failed"]  # the others have no score
        of = zip((score.name for score in self.scores), came, strict=False)
        states = dict(of) if {*self.states} - {"fitted"} else {}
        return reports.summary_page(
            self.title, lead, self.scores, estimates, self.audit, self.confusion, notes, states, self.levels
        )


class Segments(Displayed, Outcome):
    """The scores of a recipe on each value of the column ``by``, and the run that holds the table."""

    name: str
    by: str
    model: ModelSpec
    segments: list[Segment]
    run_id: str
    seconds: float

    @property
    def summary(self) -> str:
        """Say in one line how many segments have a score, and of which recipe."""
        scored = sum(each.estimate is not None for each in self.segments)
        return f"Segments of {self.name} by {self.by}: {self.model.title}, {scored:,} of {len(self.segments):,} scored"

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each segment: its rows, audit, split, why it failed, metric, value, ends of the interval."""
        scores = [figures_of(each.estimate, ("metric", "value")) for each in self.segments]
        about = pd.DataFrame(map(asdict, self.segments)).drop(columns="estimate")
        return pd.concat([about, pd.DataFrame(scores)], axis=1)

    def as_page(self) -> reports.Page:
        """Return what is told of it."""
        title = f"{self.model.title} on {self.name} by {self.by}"
        return reports.segments_page(title, self.model.metrics[0], self.segments)


class LaterScore(Displayed, Outcome):
    """The score of a recorded model on later rows, beside what its evaluation promised.

    ``run``: of the evaluation; ``run_id``: of this score.
    """

    run: str
    model: ModelSpec
    name: str
    split: SplitRef
    rows: int
    estimates: list[Estimate]
    promised: list[Estimate]
    confusion: Confusion | None = None
    notes: list[str] = []
    run_id: str = ""

    @property
    def summary(self) -> str:
        """The model, the rows, every score and what must be known of them, in one line."""
        what = f"{self.model.estimator} on the {self.rows:,} rows of {self.name}"
        return f"{what}: {'; '.join([words.scores_line(self.estimates), *self.notes])}"

    def as_page(self) -> reports.Page:
        """Return what is told of it."""
        title = f"{self.model.title} on the {self.rows:,} rows of {self.name}"
        page = reports.Page(title, reports.Verdict.NONE, "", sections=confusion_section(self.confusion))
        return reports.beside_promises(page, self.estimates, self.promised, self.notes)


class Tuning(Displayed, Outcome):
    """The result of a tuning: every configuration's score, the choice, and what the winner is worth."""

    split: SplitRef
    metric: str
    configurations: list[dict[str, object]]
    scores: list[float]
    spreads: list[float | None]
    best: int
    chosen: int
    naive: float
    value: float
    low: float
    high: float
    notes: list[str]
    level: float = 0.95
    model: ModelSpec
    n_fits: int
    n_cached: int
    run_id: str
    look: Evaluation | None = None
    nested: NestedChoice | None = None

    @property
    def summary(self) -> str:
        """The configuration that was chosen and what to expect of it, in one line."""
        metric, interval = metric_of(self.metric), Interval(self.low, self.high, self.level, "")
        score = " ".join([metric.title, *words.score_and_interval(metric, self.value, interval)])
        return f"Tuning of {len(self.configurations):,} configurations: {self.configurations[self.chosen]}, {score}"

    def as_page(self) -> reports.Page:
        """Return what is told of it."""
        choice = Choice(**{name: getattr(self, name) for name in Choice.__dataclass_fields__})
        estimates = self.nested.estimates if self.nested else []
        inside = next((estimate for estimate in estimates if estimate.metric == self.metric), None)
        on, tried = f"{self.model.title} on {self.split.name} {self.split.version}", self.configurations
        return reports.tuning_page(self.metric, tried, self.scores, self.spreads, choice, None, inside, on)
