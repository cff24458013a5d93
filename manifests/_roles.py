"""Which columns a strategy must be told of, and which it would ignore."""

from __future__ import annotations

from evenfold.splitters import Needs, SplitError, Splitter, strategies

from ._spec import SplitSpec


def require_roles(spec: SplitSpec, needs: Needs) -> None:
    """Raise SplitError where a column is named that the strategy would ignore, or one that it needs is not."""
    columns, strategy = spec.columns, spec.strategy
    if columns.group and not needs.groups:
        keepers = [name for name, each in strategies().items() if _needs_of(each).groups is True]
        raise SplitError(
            f"{strategy} does not keep groups whole, and the group column {columns.group!r} is named; "
            f"choose {', '.join(keepers)}, or leave the group column out."
        )
    if columns.stratify and needs.y == "ignored":
        raise SplitError(
            f"{strategy} shares nothing out evenly, and {'+'.join(columns.stratify)} is named to stratify; "
            "choose a strategy that does, such as StratifiedKFold, or leave it out."
        )
    if len(columns.stratify) > 1 and needs.y != "any":
        raise SplitError(
            f"{strategy} shares out one column, and {len(columns.stratify)} are named to stratify "
            f"({', '.join(columns.stratify)}); name one, or choose BalancedKFold or BalancedGroupKFold."
        )
    for what, needed, named in (
        ("target", needs.y in ("classes", "numbers"), columns.stratify or columns.target),
        ("group", needs.groups is True, columns.group),
        ("key", needs.key, columns.key),
        ("time", needs.time, columns.time),
        ("fold", needs.fixed, columns.fold),
    ):
        if needed and not named:
            flag = "" if what == "fold" else f", or --{what}"
            raise SplitError(f"{strategy} needs a {what} column, and none is named; name it (columns.{what}{flag}).")


def _needs_of(strategy: type[Splitter]) -> Needs:
    return strategy.needs if isinstance(strategy.needs, Needs) else Needs()
