"""Every check of an audit, once: its number, its limit, and what there is to say of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What an audit asks. ``code`` never changes its meaning; ``check`` is the gate's name.

    ``figure`` may be at most ``limit`` (None: any); beyond it the audit ``fails``, or warns.
    """

    code: str
    check: str
    limit: float | None
    fails: bool
    figure: str
    why: str
    example: str
    mend: str


RULES = (
    Rule(
        "EF101", "rows_without_fold", 0, True,
        "rows of the data that the manifest does not know, or knows as deleted",
        "Such rows are in no split, so no score says anything of them.",
        "1,204 rows of a new month are in the file and not in the manifest.",
        "Run `evenfold extend`, which gives new rows a fold and moves no other.",
    ),
    Rule(
        "EF102", "absent_rows", 0, True,
        "rows of the manifest that the data lack",
        "Scores of the split were of rows that are gone; they cannot be repeated.",
        "A filter upstream dropped 300 customers since the split was made.",
        "Pass the data that were split, or run `evenfold extend`, which marks the rows as deleted.",
    ),
    Rule(
        "EF103", "repeated_keys", 0, True,
        "rows of the data whose key stands in an earlier row",
        "A row is joined to its fold by its key; two rows of one key share a fold by accident, or one is lost.",
        "A join upstream doubled the orders that have two invoices.",
        "Drop the repeats, or name a key that is unique (several columns together if need be).",
    ),
    Rule(
        "EF104", "empty_folds", 0, True,
        "folds or splits without a row to test or to train on",
        "A fold without rows has no score, and a mean over folds is then a mean over fewer.",
        "The data are a sample of what was split, and fold 3 has no row in it.",
        "Pass the data that were split, or split these anew.",
    ),
    Rule(
        "EF105", "deleted_rows", None, False,
        "rows of the manifest that were deleted",
        "They are in no split; their folds are kept in case they come back.",
        "40 customers asked to be forgotten.", "Nothing, unless the number surprises you.",
    ),
    Rule(
        "EF106", "quarantined_rows", None, False,
        "rows of the manifest that are quarantined",
        "Groups in different folds turned out to belong together; using either part would leak.",
        "Two patient numbers were merged in the hospital's register.",
        "Nothing: the rows are in no split. Split anew once they are many.",
    ),
    Rule(
        "EF107", "similar_keys", 0, False,
        "rows whose key or group is another's but for case, blanks, padding, accents or punctuation",
        "Very likely one row twice, or one entity, in two folds.", "`K0012` and `k12 `; `St. Mary` and `st mary`.",
        "Correct the keys where they mean the same.",
    ),
    Rule(
        "EF108", "waiting_rows", None, False,
        "rows that wait because their targets were not known",
        "A row whose target is known only later can neither be learnt from nor tested before that.",
        "The loans of the last year, whose `label_horizon` is a year.",
        "Nothing: `evenfold extend` lets them in when their targets are known.",
    ),
    Rule(
        "EF109", "crossing_rows", 0.2, False,
        "share of the rows that `group_mode: cross` left out, because their groups are in different folds",
        "Rows that are left out are neither learnt from nor tested; where they are many, what is left is another "
        "population: patients who never changed their clinic.",
        "A third of the visits were on a device that most patients of another fold use.",
        "Fewer folds, one of the columns alone as `group`, or `group_mode: merge`.",
    ),
    Rule(
        "EF110", "fractional_keys", 0, False,
        "rows whose key is a number with a fraction",
        "A key is compared to its last bit. A fraction that is computed, rounded or written down again may differ "
        "there, and then names a row that nobody knows.",
        "The key is a time in seconds, 0.3 in one file and 0.30000000000000004 in the next.",
        "Name a column of whole numbers or text; several columns together if need be.",
    ),
    Rule(
        "EF201", "group_in_two_folds", 0, True,
        "groups on both sides of a split",
        "A model recognises the group and its score says how well it remembers, not how well it will do on new ones.",
        "Patient 4 has visits in folds 0 and 2.", "Split by group: `--group patient`, or run `evenfold extend`.",
    ),
    Rule(
        "EF202", "constant_groups", 0, False,
        "1 where groups say nothing: one for each row, or one for all",
        "Then nothing is kept together, whatever the strategy's name promises.",
        "The group column is the row's own number.", "Name the column of what should be new to a tested model.",
    ),
    Rule(
        "EF203", "duplicate_rows", 0, False,
        "rows whose features stand on the other side of a split too",
        "A row that was learnt by heart is tested. Rows of few values repeat by chance, and that is no finding: then "
        "as many pairs of rows differ in one feature as in none. "
        "Repeats whose targets agree by chance alone, and those of less than 2 % of the rows, are a note.",
        "120 rows were exported twice under new keys.", "Drop the repeats, or keep them together as a group.",
    ),
    Rule(
        "EF204", "near_duplicates", 0, False,
        "rows that nearly repeat a row on the other side of a split",
        "Re-entered, rounded and re-measured rows are repeats that no comparison of equals finds.",
        "The same person measured again: every value within a twentieth of its spread.",
        "Drop the repeats, or keep them together as a group.",
    ),
    Rule(
        "EF205", "unnamed_entities", 0, False,
        "rows of one level of a column or key part that are on both sides of a split and share the target",
        "Rows of a patient, a device or a shop share more than the features say. If new ones will come, the score of a "
        "split that parts them is too good; if only known ones will, silence this with that reason.",
        "`device` has 60 levels in every fold, and half of the target's variance lies between them.",
        "Write the proposed `group:` line into the specification; where no column is called so, the finding says in "
        "pandas how to make it.",
    ),
    Rule(
        "EF206", "relatives", 0, False,
        "rows whose relatives, by columns that they share or by closeness, are on the other side of a split",
        "Members of a household, repeated measurements and overlapping windows share more than the features say, and "
        "no column names them.",
        "Rows that agree in `birth_date`, `sex` and `zip` are one patient, registered twice.",
        "Make the proposed column and split by it.",
    ),
    Rule(
        "EF207", "places_left_out", 0, False,
        "maps: two columns whose neighbours share the target, beyond a smooth trend and at a cost",
        "Where neighbours on a map are alike, a random split tests next to what it has learnt.",
        "Soil samples with `easting` and `northing`: a model recognises the field.",
        "Keep parts of the map together, as the finding says how, or silence this if no new places will come.",
    ),
    Rule(
        "EF301", "target_like_features", 0, True,
        "features that all but give the target away",
        "A copy of the target is never known before it.", "`status_code` is 3 * y + 1.", "Leave the feature out.",
    ),
    Rule(
        "EF302", "giveaway_features", 0, False,
        "features that alone tell the target as nothing else does",
        "Something that is written down after the target is known looks like this: amounts paid, dates of closing, "
        "gaps where nothing happened.",
        "`paid` alone has an AUC of .97, all other features together .78.",
        "Leave the feature out, or silence this if it is known in time.",
    ),
    Rule(
        "EF303", "id_like_features", None, False,
        "features that name rows: at least 99% distinct, and no float",
        "A model can only learn a name by heart, and numbers given in order carry time.",
        "`row` counts from 1 to n.", "Leave it out, or use it as the key.",
    ),
    Rule(
        "EF304", "carried_targets", 0, False,
        "features that were computed with targets, those of tested rows included",
        "Rates over all rows hold the targets of tested rows; in use there are none.",
        "`zip_rate` is the mean target of each ZIP code, tested rows included.",
        "Compute it inside each fold's training rows, as a target encoder in the model's pipeline does.",
    ),
    Rule(
        "EF305", "computed_target", 0, False,
        "1 where the target is a sum or product of features, or one of them in other units, words or bands",
        "Parts that add up to the target are known no sooner than the target itself; no single one of them need look "
        "suspicious.",
        "`total` is `first_half` + `second_half`; `offer` is the wage in words.",
        "Leave the parts out, or silence this if they are known in time.",
    ),
    Rule(
        "EF307", "pure_levels", 0, False,
        "columns with a level, gap, word or part of an identifier that (nearly) one class alone has",
        "Such a mark is mostly set when the target is known, or by it.",
        "`location` is MORTUARY for 55 % of those who died and for nobody else.",
        "Leave the column out (`--exclude`), or silence this if it is known in time.",
    ),
    Rule(
        "EF401", "time_overlap", 0, True,
        "training rows that are not before every tested time, with the gap between",
        "A model that will predict tomorrow must not have seen it.", "Random folds over a year of days.",
        "Split by time: `--strategy ForwardChaining --time day`.",
    ),
    Rule(
        "EF402", "times_left_out", 0, False,
        "times that the split ignores and the target follows",
        "Where a target drifts, the neighbours in time of a tested row give it away.",
        "`demand` of 10:00 is tested and that of 9:00 and 11:00 is learnt.",
        "Split by time, or keep each stretch (a day) together as a group.",
    ),
    Rule(
        "EF403", "other_populations", 0, False,
        "folds whose rows a small model tells from the rest",
        "Scores of folds are then of different things, and their mean of none.",
        "Fold 4 is another site: a model tells its rows with an AUC of .72.",
        "Split at random within what sets them apart, or by it.",
    ),
    Rule(
        "EF404", "other_generation", 0, False,
        "1 where a small model tells the newest generation from the older rows, by more than their times",
        "Frozen folds stay comparable, but what they measure ages.",
        "The rows of November come from a new shop system.", "Report the scores of old and new rows apart.",
    ),
    Rule(
        "EF501", "missing_classes", 0, False,
        "cells of class and split that are empty",
        "A class that is not tested has no score; one that is not trained on cannot be predicted.",
        "Class `rare` has 3 rows in 5 folds.", "Fewer folds, or a strategy that is stratified.",
    ),
    Rule(
        "EF502", "size_deviation", 0.2, False,
        "largest deviation of a fold's rows from its share, relative",
        "Folds of different sizes weigh rows differently.", "Fold 0 holds 300 rows and its share is 200.",
        "A strategy that balances sizes, such as BalancedGroupKFold.",
    ),
    Rule(
        "EF503", "class_deviation", 0.2, False,
        "largest deviation of a fold's rows of a class from its share, relative",
        "Scores of folds with other shares of a class differ for that reason alone.",
        "Fold 2 holds 30 rows of class `sick` and its share is 20.", "A strategy that is stratified.",
    ),
    Rule(
        "EF504", "target_deviation", 0.2, False,
        "largest KS distance of a fold's numeric target from that of all rows",
        "A fold of high values is harder, or easier, for no merit of the model.",
        "The distribution of `delay` in fold 1 is .25 from that of all rows.", "SortedStratifiedKFold.",
    ),
    Rule(
        "EF506", "attribute_deviation", None, False,
        "largest deviation of a level's share in a fold from its share of all rows, of columns to balance on",
        "Scores of women and of men are compared across folds, so each fold should hold its share of both.",
        "Women are 48% of the rows and 39% of those of fold 2.",
        "Stratify by the column as well: `stratify: [y, sex]` with BalancedKFold or BalancedGroupKFold.",
    ),
    Rule(
        "EF507", "constant_target", 0, False,
        "1 where the target has the same value in every row",
        "Then nothing is shared out evenly, and there is nothing that a model could learn.",
        "A filter upstream kept only the loans that were paid back.", "Name another column as target.",
    ),
    Rule(
        "EF508", "untested_groups", 0, False,
        "groups that no draw tests, where chance would leave out fewer",
        "A mean over draws is then of the other groups, however many draws there are.",
        "With `beta: 100` 12 of 20 years are in no test set: every draw takes the same few that fit best.",
        "A smaller `beta`, or BalancedGroupKFold, which tests every group once.",
    ),
)  # fmt: skip
CODES = {rule.check: rule.code for rule in RULES}
