"""The audit of a split: every check, run once on these data, in sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from inspect import signature
from typing import Any

from evenfold.manifests.joined import Joined, JoinedLabels
from evenfold.manifests.store.stored import LOOKED_AT, in_memory
from evenfold.splitters.errors import SplitError
from evenfold.splitters.untrusted import FEATURES, resolve

from . import duplicates, leaks, leaky_features, marks, relatives, row_checks, target_encoding, time_and_place
from .duplicates import Features, read_features
from .findings import GATES, Audit, CheckOutcome, Found, NotAsked, gates_with, judged, needed, reasons_of
from .pipelines import QUESTIONS, Leak, leaks_of, outcome_of
from .sample import LEAST_ROWS, Sample, at_stake, feature_names, in_one_thread, read_sample, sampled_columns


@dataclass(frozen=True, eq=False)
class Subject:
    """The data of checks, each read when the first check takes it; a check takes what its parameter is called."""

    joined: Joined
    names: Sequence[str] | None
    exclude: Collection[str]
    build: Any

    @cached_property
    def columns(self) -> list[str]:
        """The features that are compared row by row."""
        return feature_names(self.joined, self.names, self.exclude)

    @cached_property
    def folds(self) -> JoinedLabels:
        """The folds and parts that rows are shared out among."""
        folds = needed(isinstance(self.joined, JoinedLabels) and self.joined, "draws and pairs share nothing out")
        strategy = self.joined.manifest.spec.strategy
        needed(folds.manifest.splitter.shares_out, f"the folds of {strategy} are as large as what they leave out")
        return folds

    @cached_property
    def features(self) -> Features:
        """A hash of every row's features, and the features of some rows."""
        return read_features(self.joined, needed(self.columns, "no column of the data is a feature; name some"))

    @cached_property
    def sample(self) -> Sample:
        """The rows that small models learn from."""
        return read_sample(self.joined, self.names, tuple(self.exclude))

    @cached_property
    def labelled(self) -> Sample:
        """Those of them that have a target, where they are enough to learn of it."""
        labelled, n = self.sample.labelled, self.sample.labelled.rows.size
        needed(n >= LEAST_ROWS, f"{n} rows have a target; {LEAST_ROWS} would do")
        return labelled

    @cached_property
    def subsample(self) -> Sample:
        """At most 8,000 of those, for small models to learn from."""
        return self.labelled.subsample

    @cached_property
    def timeless(self) -> Sample:
        """The rows that have a target; not asked of splits in time, which may use an entity's past."""
        labelled, in_time = self.labelled, "past_before_future" in self.joined.manifest.splitter.promises
        return needed(not in_time and labelled, "what is known of an entity from the past may be used in the future")

    @cached_property
    def leaks(self) -> list[Leak] | SplitError:
        """The columns of ``build`` that know what they must not."""
        return leaks_of(self.build, self.joined)

    def outcome(self, check: Callable[[Any], CheckOutcome], takes: str) -> CheckOutcome:
        """Return what a check finds in what it takes."""
        return check(getattr(self, takes))

    def priced(self, finding: Found) -> Found:
        """Return what was found with the points at stake, where it has a remedy and a small model can say it."""
        with suppress(NotAsked):
            if finding.remedy and (impact := at_stake(self.subsample, finding.remedy)):
                measure, before, mended = impact
                scores = f"{measure} {before:.3f} as split, {mended:.3f} {finding.remedy.words}, of a small model"
                figures = finding.figures | {"impact": {"measure": measure, "as_split": before, "mended": mended}}
                return replace(finding, message=f"{finding.message} At stake: {scores}.", figures=figures)
        return finding


LEARNING = ("sample", "labelled", "subsample", "timeless")
# In the order of their cost, in seconds of the processor at 100,000 rows of 20 columns.
_MODULES = row_checks, leaks, marks, leaky_features, target_encoding, time_and_place, duplicates, relatives
# A gate is called as the function that checks it.
_FUNCTIONS = {name: getattr(module, name) for module in _MODULES for name in GATES if hasattr(module, name)}
_FUNCTIONS |= {f"build_{question}": partial(outcome_of, question) for question in QUESTIONS}
CHECKS: dict[str, tuple[Callable[[Any], CheckOutcome], str]] = {
    name: (check, next(iter(signature(check).parameters))) for name, check in _FUNCTIONS.items()
}


def audit(
    manifest: Any, data: Any, *, features: Sequence[str] | None = None, exclude: Collection[str] = (),
    gates: Mapping[str, Any] | None = None, ignore: Mapping[str, str] | None = None,
    target: str | None = None, group: str | None = None, time: str | None = None,
    impact: bool = False, build: Any = None, memory: str | int | None = None,
) -> Audit:  # fmt: skip
    """Return what is wrong with ``manifest`` as a split of ``data`` (whatever ``decide`` takes, in any row order).

    ``features`` are the columns that a model would see: by default every number, truth value and category that plays
    no other part, without those to ``exclude``. ``gates`` changes limits (``GATES`` has the defaults): a number, beyond
    which the audit fails, or "off". ``ignore`` maps a check's number (``EF205``) to the reason why what it finds is no
    fault, and with which it is told. Both go over those of the specification. ``target``, ``group`` and ``time`` ask
    about columns that the split was not made by: "do patients leak in this random split?" ``impact`` says what a leak
    costs: the score of a small model as split, and mended. ``build``, a function that makes features or its import
    path, is asked too: see ``audit_pipeline``.

    Promises: every check gives a finding, passes, or says why it was not asked or could not run; a check that could
    not run has not passed. Raises SplitError where the data cannot be joined at all, for an unknown column in
    ``features``, an unknown gate or check, a path of ``build`` that may not be loaded, and where the rows take more
    than ``memory`` (all that is free where it is None). O(n log n), and O(n) for each of at most 200 draws or pairs;
    the features are read block by block, with 8 bytes a row kept.
    """
    manifest = in_memory(manifest, memory, LOOKED_AT)
    limits = gates_with({**manifest.spec.gates, **(gates or {})})
    reasons = reasons_of({**manifest.spec.ignore, **(ignore or {})})
    build = resolve(build, FEATURES) if isinstance(build, str) else build
    joined = Joined.of(manifest, data, target=target, group=group, time=time)
    subject = Subject(joined, features, exclude, build)
    checks = {name: partial(subject.outcome, *check) for name, check in CHECKS.items()}
    if build is None:
        limits = {name: gate for name, gate in limits.items() if CHECKS[name][1] != "leaks"}
    names, priced = subject.columns, subject.priced if impact else None
    with in_one_thread():
        report = judged(limits, checks, manifest, n_rows=joined.n, features=names, reasons=reasons, priced=priced)
    beside = [] if features is not None else [name for name in sampled_columns(joined, exclude) if name not in names]
    return report.model_copy(update={"beside": beside})
