"""What may be wrong with a split of these data: every check, run once, in sentences with numbers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from evenfold.manifests.joined import Joined
from evenfold.manifests.manifest import Manifest

from .balance import (
    attribute_deviation,
    balance_out_of_reach,
    class_deviation,
    constant_target,
    missing_classes,
    size_deviation,
    target_deviation,
    untested_groups,
)
from .features import Features, feature_names, id_like_features, read_features, target_like_features
from .findings import Audit, Check, Found, NotAsked, Outcome, gates_with, reasons_of
from .judging import judged
from .leaks import constant_groups, duplicate_rows, group_in_two_folds, similar_keys, time_overlap
from .rows import (
    absent_rows,
    crossing_rows,
    deleted_rows,
    empty_folds,
    fractional_keys,
    quarantined_rows,
    repeated_keys,
    rows_without_fold,
    waiting_rows,
)
from .unnamed.carried import carried_targets
from .unnamed.combined import computed_target
from .unnamed.entities import unnamed_entities
from .unnamed.giveaways import giveaway_features, strong_features
from .unnamed.impact import with_impact
from .unnamed.models import in_one_thread
from .unnamed.near_duplicates import near_duplicates
from .unnamed.populations import other_generation, other_populations
from .unnamed.sample import Sample, read_sample, sampled_columns
from .unnamed.times import times_left_out

# The checks that look at counts by fold alone, of rows that may be too many for memory.
COUNTED_CHECKS: tuple[Callable[[Any], Outcome], ...] = (
    *(empty_folds, group_in_two_folds, constant_groups),
    *(missing_classes, size_deviation, class_deviation, target_deviation, balance_out_of_reach),
)
ROW_CHECKS: tuple[Callable[[Joined], Outcome], ...] = (
    *(rows_without_fold, absent_rows, repeated_keys),
    *(deleted_rows, quarantined_rows, waiting_rows, crossing_rows),
    *(similar_keys, fractional_keys, time_overlap, attribute_deviation, constant_target, untested_groups),
    *COUNTED_CHECKS,
)
SAMPLE_CHECKS: tuple[Callable[[Sample], Outcome], ...] = (
    *(near_duplicates, unnamed_entities, carried_targets),
    *(computed_target, strong_features),
    *(times_left_out, other_populations, other_generation),
)


def audit(
    manifest: Manifest,
    data: Any,
    *,
    features: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    gates: Mapping[str, Any] | None = None,
    target: str | None = None,
    group: str | None = None,
    time: str | None = None,
    ignore: Mapping[str, str] | None = None,
    impact: bool = False,
) -> Audit:
    """Return what is wrong with ``manifest`` as a split of ``data`` (a file or a frame, in any row order).

    ``features`` are the columns that a model would see: by default every number, truth value and category that plays
    no other part, without those to ``exclude``. ``gates`` changes limits (``GATES`` has the defaults): a number, beyond
    which the audit fails, or "off"; they go over those of the specification. ``target``, ``group`` and ``time`` ask
    about columns that the split was not made by: "do patients leak in this random split?" ``ignore`` maps a check's
    number (``EF205``) to the reason why what it finds is no fault; it goes over that of the specification, and what was
    found is told with the reason. ``impact`` says what a leak costs: the score of a small model as split, and mended.

    Promises: every check gives a finding, passes, or says why it was not asked or could not run; a check that could
    not run has not passed. Raises SplitError where the data cannot be joined at all, for an unknown column in
    ``features`` and for an unknown gate. O(n log n), and O(n) for each of at most 200 draws or pairs; the features are
    read block by block, with 8 bytes a row kept.
    """
    limits = gates_with({**manifest.spec.gates, **(gates or {})})
    joined = Joined.of(manifest, data, target=target, group=group, time=time)
    names = feature_names(joined, features, exclude)
    sample = cache(partial(read_sample, joined, features, tuple(exclude)))
    checks = _checks(joined, names, sample, tells_copies=limits[target_like_features.__name__] is not None)
    reasons = reasons_of({**manifest.spec.ignore, **(ignore or {})})
    made = judged(
        limits, checks, manifest, n_rows=joined.n, features=names, reasons=reasons,
        priced=with_impact(sample) if impact else None,
    )  # fmt: skip
    beside = [] if features is not None else [name for name in sampled_columns(joined, exclude) if name not in names]
    return made.model_copy(update={"beside": beside})


def _checks(
    joined: Joined, names: list[str], sample: Callable[[], Sample | NotAsked], tells_copies: bool
) -> dict[str, Check]:
    """Return what runs each check. The features are read once, by the first check that wants them."""

    @cache
    def features() -> Features:
        return read_features(joined, names)

    def of_features(check: Callable[[Joined, Features], Outcome]) -> Outcome:
        return check(joined, features()) if names else NotAsked("no column of the data is a feature; name some")

    @cache
    def copies() -> Outcome:
        return of_features(target_like_features)

    def no_copies(sample: Sample) -> Outcome:
        found: Outcome = None
        with suppress(Exception):  # which that check tells of itself
            found = copies() if tells_copies else None
        return giveaway_features(sample, found.figures["features"] if isinstance(found, Found) else ())

    def learning(check: Callable[[Sample], Outcome]) -> Outcome:
        drawn = sample()
        if isinstance(drawn, NotAsked):
            return drawn
        with in_one_thread():
            return check(drawn)

    return {
        **{check.__name__: partial(check, joined) for check in ROW_CHECKS},
        **{check.__name__: partial(learning, check) for check in SAMPLE_CHECKS},
        **{check.__name__: partial(of_features, check) for check in (duplicate_rows, id_like_features)},
        target_like_features.__name__: copies,
        giveaway_features.__name__: partial(learning, no_copies),
    }
