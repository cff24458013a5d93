"""What kind of values a column of a table holds, and the columns a model may use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.errors import ModelError
from numpy.typing import NDArray

from .estimators import nearest

Kind = Literal["number", "category", "text", "date", "empty", "objects"]

_INFERRED: dict[str, Kind] = {
    "string": "text",
    "empty": "empty",
    "boolean": "number",
    "integer": "number",
    "floating": "number",
    "mixed-integer-float": "number",
    "decimal": "number",
    "date": "date",
    "datetime": "date",
    "datetime64": "date",
    "period": "date",
    "categorical": "category",
}

LEFT_OUT: dict[Kind, str] = {
    "date": "a date; list it in features to use it as days since 1970-01-01",
    "empty": "empty in every row",
    "objects": "objects that are neither numbers, text nor dates",
}


def kind_of(column: pd.Series) -> Kind:
    """Return the kind of a column; a column of objects is judged by its values. Booleans are numbers."""
    types = pd.api.types
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    if types.is_complex_dtype(column):
        return "objects"
    if types.is_numeric_dtype(column) or types.is_bool_dtype(column):
        return "number"
    if types.is_datetime64_any_dtype(column) or isinstance(column.dtype, pd.PeriodDtype):
        return "date"
    return _INFERRED.get(pd.api.types.infer_dtype(column, skipna=True), "objects")


def require_columns(table: pd.DataFrame, names: Iterable[str], role: str) -> None:
    """Raise ModelError for the first of ``names`` that is no column, with the nearest ones; ``role`` is its role."""
    columns = [str(column) for column in table.columns]
    for name in names:
        if name not in columns:
            raise ModelError(f"column {name!r} ({role}) is not in the data{nearest(name, columns)}")
        if columns.count(name) > 1:
            raise ModelError(f"column {name!r} ({role}) appears {columns.count(name)} times in the data; rename them.")


def choose_features(
    table: pd.DataFrame,
    features: Sequence[str] | None,
    exclude: Collection[str],
    taken: dict[str, str],
    text: Callable[[dict[str, Kind]], dict[str, str]] = lambda kinds: {},
) -> tuple[dict[str, Kind], dict[str, str]]:
    """Return the kind of each feature, in the table's or the listed order, and why each other column is left out.

    ``taken`` holds the columns that are no features, with their role. ``text`` says of the text among some columns why
    it is none either, "" where it is one. Raises ModelError where nothing is left.
    """
    require_columns(table, list(exclude), "excluded")
    if features is not None:
        return _listed(table, features, exclude, taken), {}
    kinds, left_out = {}, {}
    for name in (str(column) for column in table.columns):
        if name in taken:
            continue
        kind = kind_of(table[name])
        if name in exclude:
            left_out[name] = "excluded"
        elif kind not in LEFT_OUT and not table[name].notna().any():
            left_out[name] = LEFT_OUT["empty"]
        elif kind in LEFT_OUT:
            left_out[name] = LEFT_OUT[kind]
        elif pd.api.types.is_unsigned_integer_dtype(table[name]) and table[name].max() >= 2**63:
            left_out[name] = f"whole numbers of 2^63 and more; to use it, keep it as text (types: {{{name}: text}})"
        else:
            kinds[name] = kind
    reasons = left_out | {name: why for name, why in text(kinds).items() if why}
    left_out = {str(name): reasons[str(name)] for name in table.columns if str(name) in reasons}
    kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
    if not kinds:
        raise ModelError(f"no feature is left{_reasons(left_out)}; add a number column or list some in features.")
    return kinds, left_out


def feature_table(table: pd.DataFrame, kinds: dict[str, Kind]) -> pd.DataFrame:
    """Return the features, indexed by position: numbers as NumPy numbers, dates as days, categories and text as is."""
    ready = {name: _ready(table[name], kind) for name, kind in kinds.items()}
    return pd.DataFrame(ready, index=pd.RangeIndex(len(table)))


def plain_numbers(column: pd.Series) -> NDArray[Any]:
    """Return a column of numbers as a NumPy array: integers and booleans where none is missing, else float64."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy()
    if column.isna().any() or column.dtype == object:
        return pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).to_numpy(dtype=np.float64)
    if pd.api.types.is_bool_dtype(column):
        return column.to_numpy(dtype=np.bool_)
    return column.to_numpy(dtype=np.int64 if pd.api.types.is_integer_dtype(column) else np.float64)


def plain_or_objects(column: pd.Series) -> NDArray[Any]:
    """Return a column as an array: NumPy numbers where it holds numbers, as they are or as categories, else objects."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype if column.notna().all() else object)
    return plain_numbers(column) if kind_of(column) == "number" else column.to_numpy(dtype=object)


def _listed(
    table: pd.DataFrame, features: Sequence[str], exclude: Collection[str], taken: dict[str, str]
) -> dict[str, Kind]:
    require_columns(table, features, "a feature")
    kinds = {}
    for name in features:
        kind = kind_of(table[name])
        if name in taken:
            raise ModelError(f"features lists {name!r}, which is {taken[name]}; take it out of features.")
        if kind in ("objects", "empty"):
            raise ModelError(f"features lists {name!r}, which is {LEFT_OUT[kind]}; take it out of features.")
        if name not in exclude:
            kinds[name] = kind
    if not kinds:
        raise ModelError("no feature is left: features lists none that exclude keeps; list at least one.")
    return kinds


def _reasons(left_out: dict[str, str]) -> str:
    listing = ", ".join(f"{name} ({reason.partition(';')[0]})" for name, reason in list(left_out.items())[:6])
    return f": {listing}{', …' if len(left_out) > 6 else ''}" if listing else ": the data holds no other column"


def _ready(column: pd.Series, kind: Kind) -> Any:
    if kind == "number":
        return plain_numbers(column)
    if kind == "date":
        return _days(column)
    if kind == "text":
        return column.astype(object).where(column.notna(), None).to_numpy()
    return column.array


def _days(column: pd.Series) -> NDArray[np.float64]:
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    moments = pd.to_datetime(column, utc=True)
    days = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(days, dtype=np.float64)
