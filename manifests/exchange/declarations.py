"""What structure rows have, as AutoGluon, TabArena and data-foundry declare it; both ways, with what is lost said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evenfold.manifests.spec import SplitSpec, read_spec
from evenfold.manifests.strict import Strict
from evenfold.manifests.tables.canonical import listed
from evenfold.splitters import SplitError

# Fields of data-foundry's task that say nothing of the split.
APART = ("problem_type", "objective_metric_name", "group_labels", "group_time_on", "type_adapter_id")


class Declaration(Strict):
    """Which columns group, order and stratify the rows; ``lost`` says in sentences what a specification says beyond.

    ``structure()`` is what AutoGluon's ``fit(validation_structure=...)`` takes, and what data-foundry's task metadata
    are completed from.
    """

    group_on: str | None = None
    time_on: str | None = None
    stratify_on: str | None = None
    temporal_forward_only: bool = False
    lost: list[str] = []

    def structure(self) -> dict[str, Any]:
        """Return the fields that are given, as AutoGluon takes them."""
        return self.model_dump(exclude={"lost"}, exclude_defaults=True)


def declaration_of(spec: Any) -> Declaration:
    """Return the structure that a specification (a file, a mapping or a SplitSpec) declares of its rows.

    Raises SplitError where it names both a group and a time, which neither AutoGluon nor data-foundry takes, and
    where it declares nothing.
    """
    read = read_spec(spec)
    columns, lost = read.columns, ["the strategy, its parameters, the seed and the key: folds are decided anew there."]
    if columns.entities:
        raise SplitError(
            f"{listed(columns.entities)} stay together, and a declaration takes one group column; export the folds "
            "themselves (data-foundry, h2o)."
        )
    if columns.group and columns.time:
        raise SplitError(
            f"both a group ({columns.group}) and a time ({columns.time}) are named, and a declaration takes one of "
            "them; export the folds themselves (data-foundry, h2o), which keep both."
        )
    classes = read.strategy is not None and read.splitter().needs.y == "classes"
    stratify = columns.stratify[0] if columns.stratify else columns.target if classes else None
    if len(columns.stratify) > 1:
        lost.append(f"{listed(columns.stratify[1:])} to stratify: a declaration takes one column.")
    if read.holdout:
        lost.append(f"the locked holdout of {read.holdout.fraction:g} of the rows.")
    if not (columns.group or columns.time or stratify):
        raise SplitError("the specification names no group, time or column to stratify, so it declares nothing.")
    return Declaration(
        group_on=columns.group,
        time_on=columns.time,
        stratify_on=stratify,
        temporal_forward_only=columns.time is not None,
        lost=lost,
    )


def spec_from_declaration(
    declared: Mapping[str, Any], key: str | list[str], *, target: str | None = None, name: str = "split"
) -> SplitSpec:
    """Return the specification that AutoGluon's ``validation_structure`` or data-foundry's task metadata stand for.

    Groups become BalancedGroupKFold, a time ForwardChaining, a column to stratify StratifiedKFold or, of groups, what
    is balanced. Of several group columns, rows that share any stay together: whole, whether theirs are groups by each
    column or by all at once. Raises SplitError for what has no counterpart: a time that may train on the future,
    ``group_time_on`` of AutoGluon, several columns to stratify, and fields that are not known.
    """
    fields = {field: value for field, value in declared.items() if value not in (None, False)}
    target = target or fields.pop("target_column_name", None)
    forward = fields.pop("temporal_forward_only", "type_adapter_id" in fields)
    if "group_time_on" in fields and "group_on" not in fields:
        raise SplitError("group_time_on orders whole groups in time; name the time of each row, and time_on.")
    for field in (*APART, "size_validation_on_groups"):
        fields.pop(field, None)
    unknown = set(fields) - {"group_on", "time_on", "stratify_on"}
    if unknown:
        raise SplitError(f"{listed(sorted(unknown))}: no such field; known are group_on, time_on and stratify_on.")
    group, stratify = fields.get("group_on"), _one(fields.get("stratify_on"), "stratify_on")
    if fields.get("time_on") and not forward:
        raise SplitError(
            "time_on without temporal_forward_only trains on rows after those that are tested; there is no such "
            "strategy here. Set temporal_forward_only, and folds train on the past alone."
        )
    columns = {"key": key, "target": target, "group": group, "time": fields.get("time_on")}
    if stratify and stratify != target:
        columns["stratify"] = stratify
    return read_spec({"name": name, "columns": columns} | _strategy(columns, stratify))


def _strategy(columns: Mapping[str, Any], stratify: str | None) -> dict[str, str]:
    if columns["time"]:
        return {"strategy": "ForwardChaining"}
    if columns["group"]:
        return {"strategy": "BalancedGroupKFold"}
    return {"strategy": "StratifiedKFold"} if stratify else {}


def _one(value: Any, field: str) -> str | None:
    if isinstance(value, (list, tuple)) and len(value) != 1:
        raise SplitError(f"{field} names {len(value)} columns ({listed(value)}); join them into one, and name that.")
    name: str | None = value[0] if isinstance(value, (list, tuple)) else value
    return name
