"""Values that travel between tasks: typed, frozen, JSON, and never a frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from evenfold.estimates import Confusion, Estimate, FoldScore, LevelScore, ModelSpec
from evenfold.manifests import Audit, Manifest, SplitSpec, StoredManifest, read_manifest
from evenfold.manifests.fields import GateLimits
from evenfold.manifests.store.header import sha256
from evenfold.manifests.tables.aside import read_exactly
from evenfold.manifests.tables.keys import WhichRows
from evenfold.splitters.errors import Displayed
from evenfold.tasks.runtime.home import Home
from evenfold.tasks.runtime.signing import is_signed
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

if TYPE_CHECKING:
    from evenfold.reports import Page

BLOCK, MOST_SINGLE_FOLDS = 250, 1_000
UNDER_WAY = ".committing-"  # begins the name of a folder whose generation is being committed


def committing_place(final: Path) -> Path:
    """Return what the folder of a generation is called while it is committed: it holds the intent, see ``Intent``."""
    return final.with_name(f"{UNDER_WAY}{final.name}")


class Outcome(BaseModel):
    """The result of a task. A score that is not a number or infinite stays so in JSON."""

    # What reads and writes a kind is made when the first of it is: a flow has few of the kinds there are.
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="constants", arbitrary_types_allowed=True, defer_build=True)

    @property
    def files(self) -> list[KeptFile]:
        """The files that it names."""
        return [value for _, value in self if isinstance(value, KeptFile)]

    def intact(self) -> bool:
        """Return whether every file that it names still lies there, undamaged."""
        return all(file.intact() for file in self.files)


class SplitRef(Outcome):
    """Less than 1 kB that name a manifest: where it lies, what it must be, and the table that was split.

    ``reused``: this very decision was there before, under this name or another, or for another copy of the data.
    ``gates`` and ``ignore``: what its audits go by now in place of what the manifest holds, where it is something else.
    ``rows``: "known" where the table may lack rows of the split and hold others, which are left out.
    ``staged``: where it lies until it is committed, which is nobody's business afterwards, and so is not kept.
    """

    uri: str
    data: str
    name: str
    version: str
    split_id: str
    plan_id: str
    kind: str
    strategy: str
    algorithm_version: str
    n_rows: int
    n_splits: int
    reused: bool = False
    gates: GateLimits | None = None
    ignore: Mapping[str, str] | None = None
    rows: WhichRows = "all"
    staged: str = Field("", exclude=True, repr=False)

    @classmethod
    def of(cls, manifest: Manifest, data: str = "", reused: bool = False, staged: Path | None = None) -> Self:
        """Return the reference to a manifest, by where it lies or, ``staged``, will lie once it is committed."""
        aside = staged is not None and manifest.uri == str(staged)
        place = staged.with_name(manifest.version) if staged and aside else Path(manifest.uri or "")
        return cls(
            uri=str(place.absolute()), data=data, name=manifest.name, version=manifest.version,
            split_id=manifest.split_id, plan_id=manifest.plan_id, kind=manifest.kind,
            strategy=manifest.algorithm["name"], algorithm_version=str(manifest.algorithm["version"]),
            n_rows=manifest.n, n_splits=manifest.n_splits, reused=reused, staged=str(staged) if aside else "",
        )  # fmt: skip

    @property
    def folder(self) -> Path:
        """Return where the manifest lies now: at ``uri`` once it is committed, and before that aside."""
        final = Path(self.uri)
        aside = [Path(self.staged), committing_place(final)] if self.staged else []
        return next((place for place in aside if place.exists()), final)

    def asked(self, spec: SplitSpec) -> Self:
        """Return the reference with the gates and the reasons to ignore a check of ``spec``, which move no row."""
        held, now = self.stored().spec, self.model_copy(update={"gates": spec.gates, "ignore": spec.ignore})
        return now if (held.gates, held.ignore) != (spec.gates, spec.ignore) else self

    @property
    def limits(self) -> GateLimits:
        """The gates that its audits go by."""
        return self.stored().spec.gates if self.gates is None else self.gates

    @property
    def in_blocks(self) -> bool:
        """Return whether splits are fitted in blocks: draws, and folds that are too many for a task each."""
        return self.kind == "draws" or self.n_splits > MOST_SINGLE_FOLDS

    def splits(self) -> list[int]:
        """Return the number of each split, to map a task over."""
        return list(range(self.n_splits))

    def blocks(self, size: int = BLOCK) -> list[tuple[int, int]]:
        """Return (first, last + 1) of blocks of splits, to map a task over where there are many."""
        return [(first, min(first + size, self.n_splits)) for first in range(0, self.n_splits, size)]

    def manifest(self) -> Manifest:
        """Return the manifest; raises SplitError where it is damaged."""
        return read_manifest(self.folder)

    def stored(self) -> StoredManifest:
        """Return the manifest on disk, of whose rows none is read yet, and nothing is proved."""
        return StoredManifest(self.folder)

    def intact(self) -> bool:
        """Return whether the manifest still lies in this home, undamaged: a bucket's result may name another's."""
        place = Home.here().splits / self.name / self.version
        try:
            return Path(self.uri) == place.absolute() and self.stored().prove().split_id == self.split_id
        except (ValueError, OSError):
            return False


class SplitAudit(Audit, Outcome):
    """An audit as its task returns it."""

    def intact(self) -> bool:
        """Return whether every check could run: what stood in the way of one may be gone the next time."""
        return all(finding.ran for finding in (*self.findings, *self.ignored))


class KeptFile(Outcome):
    """A file that a task has written among the shared results, and the SHA-256 of its bytes.

    ``name``: below their folder, wherever that is now; earlier versions kept a ``path``. No other place can be named,
    for others may write to a bucket.
    """

    name: Annotated[
        str,
        BeforeValidator(lambda path: "/".join(str(path).split("/")[-2:])),
        Field(pattern=r"^(scores|models)/[0-9a-f]{64}(-rows)?\.(parquet|skops)$"),
    ] = Field(validation_alias=AliasChoices("name", "path"))
    sha256: str

    @property
    def path(self) -> Path:
        """The place where it lies."""
        return Home.here().shared / self.name

    def intact(self) -> bool:
        """Return whether the file is still what was written."""
        return self.path.exists() and sha256(self.path) == self.sha256


Block = tuple[int, int]
FitIndex = int | Block | Literal["all rows", "holdout"]
Trained = int | Literal["all rows"]


class FitResult(Outcome):
    """The result of ``fit_fold``, kept under ``key``: its split, recipe and values, its scores and its predictions.

    ``fingerprint``: of every column that the model read. ``i``, ``of``: as they were asked for. Of draws
    ``predictions`` are the table of their scores, and ``losses`` the sums of losses per row.
    """

    key: str
    split_id: str
    fingerprint: str
    model: ModelSpec
    i: FitIndex
    of: str | int = "folds"
    scores: list[FoldScore] = []
    predictions: KeptFile
    losses: KeptFile | None = None
    n_fits: int = 1

    @property
    def score(self) -> FoldScore:
        """The score of the one split."""
        return self.scores[0]

    @property
    def splits(self) -> range:
        """The numbers of its splits; none for what is of other rows."""
        if isinstance(self.i, str):
            return range(0)
        return range(*self.i) if isinstance(self.i, tuple) else range(self.i, self.i + 1)


class FinalModel(Outcome):
    """A fitted model in a skops file; ``learnt``: its key without metrics; ``signature``: of whoever fitted it."""

    key: str
    file: KeptFile
    n_train: int
    learnt: str = ""
    signature: str = ""

    @property
    def claim(self) -> dict[str, object]:
        """Return the bytes that the signature covers."""
        return self.model_dump(include={"key", "n_train", "learnt"}) | {"sha256": self.file.sha256}

    @property
    def content(self) -> bytes | None:
        """The file as this home or its team wrote it; None where neither did, or it is another: no such is opened."""
        is_ours = self.file.name == f"models/{self.key}.skops" and is_signed("model", self.claim, [self.signature])
        return read_exactly(self.file.path, self.file.sha256) if is_ours else None

    def intact(self) -> bool:
        """Return whether it is ours, and the file is still what was written."""
        return self.content is not None


class Measured(Displayed, Outcome):
    """The estimates of a model on a split, and the columns that they rest on."""

    split: SplitRef
    model: ModelSpec
    task: str
    features: list[str]
    left_out: dict[str, str]
    encoded: dict[str, str] = {}
    estimates: list[Estimate] = []
    levels: list[LevelScore] = []
    confusion: Confusion | None = None

    @property
    def title(self) -> str:
        """The model and the split."""
        return f"{self.model.title} on {self.split.name} {self.split.version}"

    def scored(self, *more: str) -> str:
        """Return the model, the split, every score and what else there is to say of them, in one line."""
        from evenfold.reports.evaluations.words import scores_line  # pages are loaded when a result is shown

        return f"{self.title}: {'; '.join(filter(None, [scores_line(self.estimates), *more]))}"


class Evaluated(Measured):
    """The estimates that fits give together, and the fits."""

    fingerprint: str
    fits: list[FitResult] = []
    apparent: FitResult | None = None
    errors: list[str] = []
    interval: str = "auto"
    level: float = 0.95

    @property
    def scores(self) -> list[FoldScore]:
        """The score of each fold, in their order; draws have a table instead."""
        return [score for fit in self.fits for score in fit.scores]

    @property
    def predictions(self) -> list[Path]:
        """The files that hold the predictions of the folds."""
        return [fit.predictions.path for fit in self.fits if fit.losses is None]

    @property
    def draws(self) -> list[FitResult]:
        """The blocks of draws."""
        return [fit for fit in self.fits if fit.losses is not None]

    @property
    def summary(self) -> str:
        """The model, the split, every score and what failed, in one line."""
        return self.scored(*self.errors)

    def as_page(self) -> Page:
        """Return what is told of it."""
        from evenfold.reports import summary_page

        lead = f"{self.split.n_rows:,} rows, {len(self.features):,} features."
        return summary_page(self.title, lead, self.scores, self.estimates, None, self.confusion, self.errors)


class RunRef(Outcome):
    """A run in MLflow: its id, its page, and ``since``: which code of the user's changed since the last of the same."""

    run_id: str
    url: str = ""
    since: str = ""


class Growth(Outcome):
    """An extended split, and how many rows joined, went, came back, wait or moved."""

    split: SplitRef
    parent_split_id: str | None = None
    added: int = 0
    deleted: int = 0
    returned: int = 0
    quarantined: int = 0
    moved: int = 0
    notes: list[str] = []


class Champion(Outcome):
    """The version of a model that is champion: its recipe, None where its tags name none, and its tags."""

    name: str
    version: str
    model: ModelSpec | None
    tags: dict[str, str] = {}
    run_id: str | None = None


class Registered(Outcome):
    """A version of a model in the registry, whether it is the champion, and the run that registered it."""

    name: str
    version: str
    uri: str
    champion: bool
    run_id: str = ""


class Look(Outcome):
    """A look at the locked part: its run, its number, of how many; ``sharing``: as in Ledger.

    ``promised``: what the recipe's newest evaluation on the folds said, once the look's scores are recorded.
    """

    run_id: str
    look: int
    budget: int | None = None
    sharing: int | None = None
    promised: list[Estimate] = []
