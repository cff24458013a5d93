"""Every check of an audit, once: its number, its limit, and what its figure is."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """A question of the audit. ``code`` never changes its meaning; ``check`` is the gate's name.

    ``figure`` may be at most ``limit`` (None: any); beyond it the audit ``fails``, or warns.
    """

    code: str
    check: str
    limit: float | None
    fails: bool
    figure: str


RULES = (
    Rule("EF101", "rows_without_fold", 0, True,
         "rows of the data that the manifest does not know, or knows as deleted"),
    Rule("EF102", "absent_rows", 0, True, "rows of the manifest that the data lack"),
    Rule("EF103", "repeated_keys", 0, True, "rows of the data whose key stands in an earlier row"),
    Rule("EF104", "empty_folds", 0, True, "folds or splits without a row to test or to train on"),
    Rule("EF105", "deleted_rows", None, False, "rows of the manifest that were deleted"),
    Rule("EF106", "quarantined_rows", None, False, "rows of the manifest that are quarantined"),
    Rule("EF107", "similar_keys", 0, False, "rows whose key or group is another's but for its spelling"),
    Rule("EF108", "waiting_rows", None, False, "rows that wait because their targets were not known"),
    Rule("EF109", "crossing_rows", 0.2, False, "share of the rows, or of earlier rows, left out for their groups"),
    Rule("EF110", "fractional_keys", 0, False, "rows whose key is a number with a fraction"),
    Rule("EF201", "group_in_two_folds", 0, True, "groups on both sides of a split"),
    Rule("EF202", "constant_groups", 0, False, "1 where groups say nothing: one for each row, or one for all"),
    Rule("EF203", "duplicate_rows", 0, False, "rows whose features stand on the other side of a split too"),
    Rule("EF204", "near_duplicates", 0, False, "rows that nearly repeat a row on the other side of a split"),
    Rule("EF205", "unnamed_entities", 0, False, "rows of a level on both sides of a split that shares the target"),
    Rule("EF206", "relatives", 0, False, "rows whose relatives are on the other side of a split"),
    Rule("EF207", "places_left_out", 0, False,
         "maps: two columns whose neighbours share the target, beyond a smooth trend and at a cost"),
    Rule("EF301", "target_like_features", 0, True, "features that all but give the target away"),
    Rule("EF302", "giveaway_features", 0, False, "features that alone tell the target as nothing else does"),
    Rule("EF303", "id_like_features", None, False, "features that name rows: at least 99% distinct, and no float"),
    Rule("EF304", "carried_targets", 0, False, "features that were computed with targets of tested rows"),
    Rule("EF305", "computed_target", 0, False, "1 where features make up the target, alone or together"),
    Rule("EF307", "pure_levels", 0, False, "columns with a level or part that (nearly) one class alone has"),
    Rule("EF308", "filled_cells", 0, False, "numbers with computed cells that know the target better than others"),
    Rule("EF309", "chosen_features", 0, False, "features that look like the best of many, chosen on all rows"),
    Rule("EF310", "ordered_keys", 0, False, "1 where the order of the key, or of the file, foretells the target"),
    Rule("EF401", "time_overlap", 0, True, "training rows that are not before every tested time, with the gap between"),
    Rule("EF402", "times_left_out", 0, False, "times that the split ignores and the target follows"),
    Rule("EF403", "other_populations", 0, False, "folds whose rows a small model tells from the rest"),
    Rule("EF404", "other_generation", 0, False, "1 where a small model tells the newest generation from older rows"),
    Rule("EF501", "missing_classes", 0, False, "cells of class and split that are empty"),
    Rule("EF502", "size_deviation", 0.2, False, "largest deviation of a fold's rows from its share, relative"),
    Rule("EF503", "class_deviation", 0.2, False, "largest deviation of a class's rows in a fold, relative"),
    Rule("EF504", "target_deviation", 0.2, False, "largest KS distance of a fold's target from that of all rows"),
    Rule("EF506", "attribute_deviation", None, False,
         "largest deviation of a level's share in a fold from its share of all rows, of columns to balance on"),
    Rule("EF507", "constant_target", 0, False, "1 where the target has the same value in every row"),
)  # fmt: skip
CODES = {rule.check: rule.code for rule in RULES}
