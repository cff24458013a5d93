"""The result of a retraining, and its page."""

from __future__ import annotations

from pathlib import Path

from evenfold.estimates import Estimate, ModelSpec, metric_of
from evenfold.estimates.promotion import Decision
from evenfold.manifests import Audit
from evenfold.splitters.errors import Displayed
from evenfold.tasks.outcomes import Champion, Growth, Judged, Outcome, Registered, SplitRef

from evenfold import reports


class Retraining(Displayed, Outcome):
    """The result of a retraining; ``reused`` where the same one was finished before.

    ``model``: the recipe that serves, which ``estimates`` are of; ``loser``: the other one, where two were compared.
    ``checked``: what was asked of the new model before it was promoted, None where none was to be.
    """

    split: SplitRef
    growth: Growth
    audit: Audit
    champion: Champion | None
    evaluation_run_id: str
    decision: Decision
    registered: Registered | None
    run_id: str
    report: str
    checked: Audit | None = None
    judged: Judged = Judged()
    reused: bool = False
    estimates: list[Estimate] = []
    model: ModelSpec | None = None
    loser: ModelSpec | None = None

    @property
    def compared(self) -> str:
        """Say in a sentence how far the candidate is from the champion; empty where nothing was compared."""
        from evenfold.reports.evaluations.decisions import difference_words

        return difference_words(self.decision, *self._titles)

    @property
    def before(self) -> str:
        """Say in a sentence what the earlier champion scores on rows that it has not seen; empty without a score."""
        if self.judged.score is None:
            return ""
        metric = metric_of(self.decision.metric)
        value = f"{metric.title} {metric.shown(self.judged.score):.4g}"
        return f"The champion of before has {value} on the {self.judged.rows:,} new rows; it decides nothing."

    @property
    def _titles(self) -> tuple[str, str]:
        return self.model.title if self.model else "", self.loser.title if self.loser else ""

    @property
    def summary(self) -> str:
        """Say in one line what was decided and why."""
        name = self.registered.name if self.registered else self.split.name
        what = "promoted" if self.decision.promote else "not promoted"
        return f"Retraining of {name} on {self.split.name} {self.split.version}: {what}, {self.decision.why}"

    @property
    def beside(self) -> list[str]:
        """The sentences on what became of it: nothing new where it was reused, and what the registry holds."""
        sentences = ["nothing has changed since this was decided, so nothing was done"] if self.reused else []
        if version := self.registered:
            sentences.append(
                f"registry: {version.uri} {'is champion' if version.champion else 'is kept beside the champion'}"
            )
        return sentences

    def doubts(self, arrival: Audit | None, most: float | None) -> dict[str, str]:
        """Return what nothing can decide, each by what it is called, in sentences: what is unclear, and each warning.

        ``arrival``: what was found in the table. ``most``: how much better a candidate may be unasked; None: any.
        """
        doubts = {"new_rows": " ".join(self.judged.sentences)} if self.judged.verdict == "unclear" else {}
        for audit in filter(None, (arrival, self.audit, self.checked)):
            doubts |= {finding.check: finding.message for finding in audit.findings if finding.severity == "warning"}
        better = (self.decision.difference or 0.0) if self.decision.winner == "candidate" else 0.0
        if most is not None and better > most:
            doubts["ask_above"] = f"The candidate is better by {better:.4g}, more than {most:g}."
        return doubts

    def as_page(self) -> reports.Page:
        """Return the page of the decision."""
        rows = self.growth
        left = f"{rows.deleted:,} deleted, {rows.quarantined:,} quarantined"
        joined = f"{rows.added:,} rows joined, {rows.moved:,} moved, {left}: split_id {self.split.split_id}."
        unclear = self.judged.sentences if self.judged.verdict == "unclear" else []
        news = [] if unclear else self.judged.sentences
        return reports.retraining_page(
            self.registered.name if self.registered else self.split.name, self.decision, self.estimates, self.audit,
            self.checked, version=self.registered.version if self.registered else "", growth=[joined, *rows.notes],
            newer=[*news, *filter(None, [self.before])], months=self.judged.series, unclear=unclear,
            split=f"{self.split.name} {self.split.version}", titles=self._titles,
            origin=reports.Origin(Path(self.split.data).name, self.run_id),
        )  # fmt: skip


class Opened(Outcome):
    """The run of a retraining: the decision that it made before it was interrupted, or its outcome if it finished."""

    run_id: str
    decision: Decision | None = None
    outcome: Retraining | None = None
