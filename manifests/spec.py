"""The contract: what is to be split, which column plays which part, and how, as JSON or YAML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from evenfold.splitters import Crossed, Needs, SplitError, Splitter, all_strategies
from evenfold.splitters.base import parameters_of, strategy_of, strategy_recipe
from evenfold.splitters.errors import is_address, reason_of, require_readable, shown
from evenfold.splitters.numbers import digest_json, plain_numbers, require_bounded, require_present
from evenfold.splitters.untrusted import read_document
from pydantic import Field, ValidationError, model_validator

from .fields import Algorithm, GateLimits, KeyEncoding, Length, LockedPart, Names, Strict, Whole, also, explain
from .tables.canonical import ColumnType, is_pseudonym, listed, require_none, require_years, to_numpy

ROW_KEY = "row_key"  # the pseudonym in place of a key
ENORMOUS = 1e150  # of larger numbers no variance can be had: the largest float is about 1.8e308
LET_WAIT = (
    "drop those rows, or let them wait outside of every split: with a key, --missing-target wait (missing_target: wait "
    "in a specification)."
)
DECIDED = "fill them in; their folds are decided, and only a split made anew can do without those rows."
ALONE = (
    "drop those rows, or let each stand alone, as a group of its own: --missing-group alone (missing_group: alone in a "
    "specification)."
)


def name_like(text: str) -> str:
    """Return a name for a split that is as near to ``text`` as a folder's can be; empty where nothing is left.

    Letters and digits of every script stay, and '.', '_' and '-' within; all else is '-'. At most 100 characters and
    200 bytes of UTF-8, of a folder's 255. A name that is one already stays as it is.
    """
    composed = unicodedata.normalize("NFC", text)
    letters = [letter if letter in "._-" or unicodedata.category(letter)[0] in "LMN" else "-" for letter in composed]
    plain = "".join(letters).lstrip("._-")[:100].encode()[:200].decode(errors="ignore")
    return plain if plain == text else plain.rstrip("._-")


def name_of(data: Any) -> str:
    """Return what a split of some data is called where nobody says: as their file, or by the digest of a frame."""
    place = str(data).removesuffix(".gz").rpartition("#")[2] if is_address(data) else str(data).removesuffix(".gz")
    stem = Path(place).stem if isinstance(data, (str, Path)) else ""
    # The name of a frame's file is its digest.
    return f"table-{stem[:8]}" if re.fullmatch("[0-9a-f]{32}", stem) else name_like(stem) or "split"


class Columns(Strict):
    """Which column plays which part."""

    key: Names = Field(default=[], description="Names each row once and for all; several columns together if need be.")
    target: str | None = Field(default=None, description="What a model learns to predict.")
    group: str | None = Field(
        default=None,
        description="Rows of one group stay together; a list of several columns is kept as entities.",
        json_schema_extra=also({"items": {"type": "string"}, "type": "array"}),
    )
    entities: list[str] = Field(
        default=[],
        description="Several columns of groups, a patient and a device, say; group_mode says how they are kept.",
    )
    stratify: Names = Field(default=[], description="What is shared out evenly, where it is not the target.")
    time: str | None = Field(default=None, description="When each row happened.")
    label_end: str | None = Field(default=None, description="When the target of each row is known.")
    coordinates: list[str] = Field(
        default=[],
        description="Where each row lies: two columns of a plane, x and y in one unit; no features unless listed.",
    )
    fold: str | None = Field(default=None, description="Folds that were decided elsewhere, for Predefined.")
    balance_on: Names = Field(
        default=[], description="Whose shares and scores are reported; decides nothing, and is no feature."
    )

    @model_validator(mode="before")
    @classmethod
    def _in_full(cls, fields: Any) -> Any:
        """Return the fields with lists where a name or nothing stands for one, and several groups as entities."""
        if not isinstance(fields, Mapping):
            return fields
        fields = dict(fields)
        for role in {"key", "stratify", "balance_on", "group"} & fields.keys():
            names = [] if fields[role] is None else [fields[role]] if isinstance(fields[role], str) else fields[role]
            several = isinstance(names, (list, tuple))
            fields[role] = [name for i, name in enumerate(names) if name not in names[:i]] if several else names
        if isinstance(groups := fields.get("group"), list):
            if len(groups) > 1 and fields.get("entities") not in (None, [], groups):
                raise ValueError("group and entities both name what stays together; give one")
            fields |= {"entities": groups} if len(groups) > 1 else {}
            fields["group"] = groups[0] if len(groups) == 1 else None
        return fields

    @model_validator(mode="after")
    def _fits_together(self) -> Columns:
        if len(self.entities) == 1 or (self.entities and self.group):
            raise ValueError("entities are two columns or more, and no group beside them; name one column as group")
        if self.coordinates and (len(self.coordinates) != 2 or len(set(self.coordinates)) != 2):
            raise ValueError(f"{self.coordinates!r} is not a place in a plane; name two columns, such as [x, y]")
        for name in self.key:
            if re.fullmatch(r"fold(_r\d+)?|stratum(_\d+)?|group_code|status", name):
                raise ValueError(f"key column {name!r} is called as a column of the manifest; rename it")
        return self

    @property
    def grouped(self) -> list[str]:
        """The columns whose rows stay together: the group, or several entities; none where nothing is named."""
        return [self.group] if self.group else self.entities

    @property
    def shared_out(self) -> list[str]:
        """The columns of which every fold is to have its share: those to stratify by, else the target, if any."""
        return self.stratify or ([self.target] if self.target else [])

    def roles(self) -> list[str]:
        """Return every named column, each once."""
        names = [*self.key, self.target, *self.grouped, *self.stratify, self.time, self.label_end, self.fold]
        return list(dict.fromkeys(filter(None, [*names, *self.balance_on, *self.coordinates])))

    def kept_from_models(self, listed: Collection[str] | None) -> list[str]:
        """Return the named columns that are no features: all, but for coordinates that a model lists."""
        return [name for name in self.roles() if name not in self.coordinates or name not in (listed or ())]


class SplitSpec(Strict):
    """The specification of a split. Two that mean the same have the same decision fields.

    Without ``strategy`` coordinates choose SpatialBlockKFold, a time ForwardChaining, groups BalancedGroupKFold, a
    numeric target SortedStratifiedKFold, classes StratifiedKFold, nothing KFold. With ``parts`` among the parameters: a
    time TimeSplit, groups BalancedGroupSplit, numbers FractionalStratifiedSplit, classes StratifiedSplit, nothing
    RandomSplit.
    """

    name: str = Field(default="split", description="What the split is called on disk and in MLflow.")
    columns: Columns = Columns()
    types: dict[str, ColumnType] = Field(default={}, description="Types of columns; inferred once where not given.")
    strategy: str | None = Field(default=None, description="A strategy's name, or package.module:Name.")
    params: dict[str, Any] = Field(default={}, description="The strategy's parameters, without random_state.")
    seed: Whole = Field(default=0, ge=0, description="Decides everything that is random.")
    group_mode: Literal["merge", "cross"] = Field(
        default="merge",
        description="Of several group columns: merge keeps all that they join together; cross leaves out rows whose "
        "groups would lie in different folds, as few as it can.",
    )
    holdout: LockedPart | None = Field(
        default=None,
        description="A test part that is locked away first.",
        json_schema_extra=also({"exclusiveMaximum": 1, "exclusiveMinimum": 0, "type": "number"}),
    )
    calibration: float | None = Field(
        default=None, gt=0, lt=1, description="Share of each training side that as_cv sets apart to calibrate by."
    )
    key_encoding: KeyEncoding | None = Field(
        default=None,
        description="Pseudonyms instead of keys.",
        json_schema_extra=also({"const": "hmac", "type": "string"}),
    )
    gates: GateLimits = Field(default={}, description="Limits at which an audit fails.")
    ignore: dict[str, str] = Field(default={}, description="Checks to ignore, as EF205: the reason why.")
    label_horizon: Length | None = Field(
        default=None, description='How long after its time the target of a row is known, such as "30 days".'
    )
    on_immature: Literal["wait", "use"] = Field(
        default="wait", description="What becomes of rows whose target is not known at the latest time in the data."
    )
    missing_target: Literal["stop", "wait"] = Field(
        default="stop", description="What becomes of rows without a target: an error, or they wait until they have one."
    )
    missing_group: Literal["refuse", "alone"] = Field(
        default="refuse", description="What becomes of rows without a group: an error, or each is one of its own."
    )
    on_new_rows: Literal["fill", "hash", "freeze"] = Field(default="fill", description="What extending does.")

    def __hash__(self) -> int:  # of parameters that cannot be hashed
        return hash(self.model_dump_json())

    @model_validator(mode="before")
    @classmethod
    def _in_full(cls, value: Any) -> Any:
        """Return the fields with a strategy that is passed as an object, if any, as its name, parameters and seed."""
        fields = dict(value) if isinstance(value, Mapping) else {}
        if not isinstance(fields.get("strategy"), (str, type(None))):
            recipe = strategy_recipe(fields["strategy"])
            params = dict(recipe.get("params") or {})
            if strategy_of(recipe).by_position and dict(fields.get("columns") or {}).get("key"):
                whose = type(fields["strategy"]).__name__ if hasattr(fields["strategy"], "split") else "a list of pairs"
                raise SplitError(
                    f"{whose} goes by the position of rows, and rows with a key lie in its order; leave the key out, "
                    "name a column of folds (columns.fold, or --fold), or use ForwardChaining with a time."
                )
            if "random_state" in params and fields.setdefault("seed", params["random_state"]) != params["random_state"]:
                raise SplitError(f"the strategy has another seed than {fields['seed']}; give one of both.")
            params = {name: each for name, each in params.items() if name != "random_state"}
            params |= dict(fields.get("params") or {})
            value = fields | {"strategy": recipe.get("strategy"), "params": params}
        require_bounded(value)
        return plain_numbers(value)

    @model_validator(mode="after")
    def _fits_together(self) -> SplitSpec:
        columns = self.columns
        for field, value, role, names in (
            ("group_mode", "cross", "second group", columns.entities),
            ("missing_target", "wait", "target", columns.target),
            ("missing_group", "alone", "group", columns.grouped),
        ):
            if getattr(self, field) == value and not names:
                raise ValueError(f"{field}: {value} needs a {role} column; name it, or leave {field} out")
        if self.name != name_like(self.name):
            raise ValueError(f"the name {self.name!r} cannot name a folder; use letters, digits, '.', '_' and '-'")
        if self.key_encoding and columns.target in self.pseudonyms():
            cure = "name another column to stratify or as the group, or leave that role out of key_encoding.encode"
            raise ValueError(f"the target {columns.target} cannot be encoded, for a model learns it; {cure}")
        if "random_state" in self.params:
            raise ValueError("params hold random_state; give it as seed")
        if self.label_horizon is not None and columns.label_end:
            raise ValueError("label_horizon and columns.label_end both say when targets are known; give one")
        if self.missing_group == "alone" and self.on_new_rows == "hash":
            what = "on_new_rows: hash deals new rows by their group, and with missing_group: alone some have none"
            raise ValueError(f"{what}; choose fill or freeze")
        return self

    @property
    def says_when_known(self) -> bool:
        """Return whether targets are known later than their rows: then rows may have to wait."""
        return self.label_horizon is not None or self.columns.label_end is not None

    @property
    def may_wait(self) -> bool:
        """Return whether rows whose target is not known wait outside of every split."""
        return self.missing_target == "wait" or (self.says_when_known and self.on_immature == "wait")

    @property
    def key_names(self) -> list[str]:
        """The names of the key columns as a manifest holds them."""
        return [ROW_KEY] if self.key_encoding and self.columns.key else self.columns.key

    @property
    def locked_share(self) -> float:
        """The share of the rows that is locked away first."""
        return self.holdout.fraction if self.holdout else 0.0

    @classmethod
    def elsewhere(cls, name: str, value: Any) -> str | None:
        """Return where a field that this model does not know belongs: among the columns or parameters."""
        if name in Columns.model_fields:
            return "it belongs in columns."
        is_parameter = any(name in parameters_of(strategy) for strategy in all_strategies().values())
        return f"write params: {{{name}: {shown(repr(value))}}}." if is_parameter else None

    def splitter(self) -> Splitter:
        """Return the strategy, seeded; raises SplitError for an unknown name or parameter."""
        strategy = strategy_of({"strategy": self.strategy, "params": self.params}, self.seed)
        return Crossed(strategy, random_state=self.seed) if self.group_mode == "cross" else strategy

    def require_complete(self, table: pa.Table, decided: bool = False) -> None:
        """Raise SplitError where a canonical column misses values, or has infinite or enormous ones, counting them.

        With ``missing_group: alone`` groups may be missing; they are only compared, so any finite number will do.
        ``decided``: the rows have folds, and can neither be dropped nor wait.
        """
        groups, alone = self.columns.grouped, self.missing_group == "alone"
        mends = {} if decided else {self.columns.target: LET_WAIT} | dict.fromkeys(groups, ALONE)
        usual = DECIDED if decided else "drop or fill those rows first."
        for name, column in zip(table.column_names, table.columns, strict=True):
            if column.null_count and not (alone and name in groups):
                require_present(to_numpy(column), f"column {name!r}", mends.get(name, usual))
            require_years(column, name)
            if pa.types.is_floating(column.type):
                enormous = pc.greater(pc.abs(column), np.finfo(np.float64).max if name in groups else ENORMOUS)
                mend = "divide the column, whose squares are added up, or correct those rows"
                require_none(enormous, name, f"is infinite or beyond {ENORMOUS:g}", mend)

    def pseudonyms(self) -> list[str]:
        """Return the columns beside the key of which no manifest, log or page holds a value as it was."""
        encode = () if self.key_encoding is None else self.key_encoding.encode
        group = [self.columns.group] if self.columns.group and "group" in encode else []
        return list(dict.fromkeys([*group, *(self.columns.stratify if "stratify" in encode else [])]))

    def decision(self, types: dict[str, str]) -> dict[str, Any]:
        """Return what the plan's identity rests on; parameters that have their default are left out."""
        splitter = self.splitter()
        strategy = splitter.inner() if isinstance(splitter, Crossed) else splitter
        params, defaults = strategy.get_params(deep=False), parameters_of(type(strategy))
        # So a parameter that a later version adds changes no identity while it has its default.
        changed = {name: value for name, value in params.items() if name != "random_state" and value != defaults[name]}
        decided = {
            "columns": self.columns.model_dump(exclude_defaults=True), "types": dict(sorted(types.items())),
            "strategy": self.strategy, "params": changed, "seed": self.seed,
        }  # fmt: skip
        if self.holdout:
            # How often it may be looked at, and what is told then, moves no row.
            decided["holdout"] = self.holdout.model_dump(exclude_defaults=True, exclude={"budget"})
        if self.key_encoding:
            encoding = self.key_encoding.model_dump(exclude={"secret", "encode"})  # what is encoded stands in the types
            checks = (kind.partition(":")[2] for kind in types.values() if is_pseudonym(kind))
            decided["key_encoding"] = encoding | {"check": next(checks, None)}
        rules = {"calibration", "group_mode", "label_horizon", "on_immature", "on_new_rows"}
        rules |= {"missing_target", "missing_group"}
        return decided | self.model_dump(include=rules, exclude_defaults=True)

    def plan_id(self, types: dict[str, str], content: str, algorithm: Algorithm, parent: str | None = None) -> str:
        """Return the key of the split cache: what was asked, of which data, by which algorithm, grown from what."""
        plan = {"decision": self.decision(types), "fingerprint": content, "algorithm": algorithm}
        return digest_json(plan | {"parent_split_id": parent})


def read_spec(source: Any) -> SplitSpec:
    """Return the specification in a YAML or JSON file, or a mapping; SplitError names each field that does not fit."""
    if isinstance(source, SplitSpec):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        require_readable([path])
        try:
            source = read_document(path.read_text(encoding="utf-8")) or {}
        except OSError as error:
            raise SplitError(f"{path} cannot be read ({error.strerror}); pass a YAML or JSON file.") from None
        except ValueError as error:
            raise SplitError(f"{path} is neither YAML nor JSON ({reason_of(error)}); correct it.") from None
    if not isinstance(source, Mapping):
        kind = type(source).__name__
        raise SplitError(f"a {kind} is no specification; name columns, target='y', or pass a mapping or a file.")
    try:
        return SplitSpec.model_validate(source)
    except ValidationError as error:
        raise SplitError(explain(error, "the specification", SplitSpec)) from None


def require_roles(spec: SplitSpec, needs: Needs) -> None:
    """Raise SplitError where a column is named that the strategy would ignore, or one that it needs is not."""
    columns, strategy = spec.columns, spec.strategy
    roles: dict[str, list[str | None]] = {"group": [*columns.grouped], "key": [*columns.key]}
    roles |= {"coordinates": [*columns.coordinates], "time": [columns.time], "fold": [columns.fold]}
    target = columns.target
    twice = [("target", target, role) for role, names in roles.items() if target and target in names]
    twice += [("key", name, "group") for name in columns.grouped if columns.key == [name]]
    for one, name, other in twice:
        raise SplitError(f"{name!r} is named as {one} and as {other}; name another column as {other}, or none.")
    for role, names, use, reads in (
        ("group", columns.grouped, "keep groups whole", "groups"),
        ("coordinates", columns.coordinates, "look at where rows lie", "coordinates"),
        ("stratify", columns.stratify, "share anything out", "y"),
    ):
        if names and getattr(needs, reads) in (False, "ignored"):
            others = {name: its.needs for name, its in all_strategies().items() if not its.needs.time}
            able = [name for name, of in others.items() if getattr(of, reads) not in (False, "ignored", "optional")]
            column, are, them = ("column", "is", "it") if len(names) == 1 else ("columns", "are", "them")
            what = f"{strategy} does not {use}, and the {role} {column} {listed(map(repr, names))} {are} named"
            raise SplitError(f"{what}; choose {', '.join(able)}, or leave {them} out.")
    if len(columns.stratify) > 1 and needs.y != "any":
        raise SplitError(
            f"{strategy} shares out one column, and {len(columns.stratify)} are named to stratify "
            f"({', '.join(columns.stratify)}); name one, or choose BalancedKFold or BalancedGroupKFold."
        )
    for role, needed, present in (
        ("target", needs.y in ("classes", "numbers"), columns.stratify or columns.target),
        ("group", needs.groups is True, columns.grouped),
        ("key", needs.key, columns.key),
        ("time", needs.time or spec.says_when_known, columns.time),
        ("fold", needs.fixed, columns.fold),
        ("coordinates", needs.coordinates, columns.coordinates),
    ):
        if needed and not present:
            flag = "" if role == "fold" else f", or --{role}"
            who = strategy if role != "time" or needs.time else "what says when targets are known"
            raise SplitError(f"{who} needs a {role} column, and none is named; name it (columns.{role}{flag}).")
