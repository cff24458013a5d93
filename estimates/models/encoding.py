"""Columns as a model sees them: which are read, and how text and categories become numbers inside each fold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from evenfold.estimates.models.estimators import nearest, parts_of
from evenfold.estimates.models.spec import ModelSpec
from evenfold.splitters.errors import ModelError
from evenfold.splitters.naming import distribution_of
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags

Kind = Literal["number", "category", "text", "date", "empty", "objects"]
_INFERRED: dict[Kind, tuple[str, ...]] = {  # what pandas calls the values of a column of objects
    "number": ("boolean", "integer", "floating", "mixed-integer-float", "decimal"),
    "date": ("date", "datetime", "datetime64", "period"),
    "text": ("string",),
    "empty": ("empty",),
}
LEFT_OUT: dict[Kind, str] = {
    "date": "a date; list it in features to use it as days since 1970-01-01",
    "empty": "empty in every row",
    "objects": "objects that are neither numbers nor text nor dates",
}
A_FOLD = "the fold of each row, as an export writes it; list it in features to use it"
ROW_NUMBERS = ("rownames", "Unnamed: 0", "__index_level_0__")  # as R and pandas call those that they write
ROWS_A_VALUE = 10  # of text with fewer rows a value, which is a name rather than a category, nothing is learnt
MOST_COLUMNS = 50  # that a text becomes where it was not asked for: the rarest values share the last one
MOST_CATEGORIES = 254  # a histogram has 255 bins, one of them for what is missing
CATEGORIES, ONE_HOT, ORDINAL, ITSELF = "categories", "one-hot", "ordinal", "itself"
NAMING = ("cat_features", "categorical_features", "categorical_feature", "text_features")  # parameters of libraries
MARKS = re.compile(r'[\[\]<>{}",:]')  # what LightGBM or XGBoost take in no name of a column


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
    inferred = types.infer_dtype(column, skipna=True)
    return next((kind for kind, names in _INFERRED.items() if inferred in names), "objects")


def require_columns(table: pd.DataFrame, names: Iterable[str], role: str) -> None:
    """Raise ModelError for the first of ``names`` that is no column, with the nearest ones; ``role`` is its role."""
    columns = [str(column) for column in table.columns]
    for name in names:
        if name not in columns:
            raise ModelError(f"column {name!r} ({role}) is not in the data{nearest(name, columns)}")
        if columns.count(name) > 1:
            raise ModelError(f"column {name!r} ({role}) appears {columns.count(name)} times in the data; rename them.")


def choose_features(
    table: pd.DataFrame, model: ModelSpec, taken: dict[str, str], folds: Collection[str]
) -> tuple[dict[str, Kind], dict[str, str]]:
    """Return the kind of each feature, in the table's or the listed order, and why each other column is left out.

    ``taken``: the columns with another role. ``folds``: features only where listed. ModelError where nothing is left.
    """
    require_columns(table, list(model.exclude), "excluded")
    if model.features is not None:
        return _listed(table, model, taken), {}
    candidates = {name: kind_of(table[name]) for name in map(str, table.columns) if name not in taken}
    reasons = {name: _unfit(table[name], kind) for name, kind in candidates.items()}
    reasons |= dict.fromkeys((name for name in candidates if name in model.exclude), "excluded")
    kinds = {name: kind for name, kind in candidates.items() if not reasons[name]}
    reasons |= text_for(model, table, kinds) | {name: A_FOLD for name in folds if name in kinds}
    left_out = {name: why for name, why in reasons.items() if why}
    kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
    if not kinds:
        listing = ", ".join(f"{name} ({reason.partition(';')[0]})" for name, reason in [*left_out.items()][:6])
        why = f"{listing}{', …' if len(left_out) > 6 else ''}" or "the data holds no other column"
        raise ModelError(f"no feature is left: {why}; add a number column or list some in features.")
    return kinds, left_out


def _unfit(column: pd.Series, kind: Kind) -> str:
    """Return why a column is no feature unless it is listed; "" where it is one."""
    if kind not in LEFT_OUT and not column.notna().any():
        return LEFT_OUT["empty"]
    if kind not in LEFT_OUT and pd.api.types.is_unsigned_integer_dtype(column) and column.max() >= 2**63:
        return f"whole numbers of 2^63 and more; to use it, keep it as text (types: {{{column.name}: text}})"
    if column.name in ROW_NUMBERS and pd.api.types.is_integer_dtype(column) and column.is_unique:
        return "numbers of rows; list it in features to use it"
    return LEFT_OUT.get(kind, "")


def feature_table(table: pd.DataFrame, kinds: dict[str, Kind]) -> pd.DataFrame:
    """Return the features, indexed by position: numbers as NumPy numbers, dates as days, categories and text as is."""
    ready = {name: _ready(table[name], kind) for name, kind in kinds.items()}
    return pd.DataFrame(ready, index=pd.RangeIndex(len(table)))


def later_features(table: pd.DataFrame, training: pd.DataFrame) -> pd.DataFrame:
    """Return the features of later rows as a model of ``training`` was given them; ModelError for another kind."""
    held, now = ({str(name): kind_of(frame[name]) for name in training} for frame in (training, table))
    # By what a column held in training, where dates were made numbers.
    later = {"number": ("number", "date"), "text": ("text",), "category": ("category", "text")}
    for name in held:
        if now[name] not in ("empty", *later[held[name]]):
            raise ModelError(f"feature {name!r} holds {now[name]} now, and {held[name]} where the model was trained.")
    X = feature_table(table, {name: "date" if now[name] == "date" else kind for name, kind in held.items()})
    for name in [name for name, kind in held.items() if kind == "category"]:
        levels = training[name].cat.categories
        X[name] = table[name].where(table[name].isin(levels)).astype(training[name].dtype).array
    return X


def plain_numbers(column: pd.Series) -> NDArray[Any]:
    """Return a column of numbers as a NumPy array: integers and booleans where none is missing, else float64."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy()
    if column.isna().any() or column.dtype == object:
        return pd.to_numeric(column.astype(object).where(column.notna(), np.nan)).to_numpy(dtype=np.float64)
    if pd.api.types.is_bool_dtype(column):
        return column.to_numpy(dtype=np.bool_)
    return column.to_numpy(dtype=np.int64 if pd.api.types.is_integer_dtype(column) else np.float64)


def _listed(table: pd.DataFrame, model: ModelSpec, taken: dict[str, str]) -> dict[str, Kind]:
    features = model.features or ()
    require_columns(table, features, "a feature")
    kinds: dict[str, Kind] = {}
    for name in features:
        kind = kind_of(table[name])
        if name in taken or kind in ("objects", "empty"):
            what = taken[name] if name in taken else LEFT_OUT[kind]
            raise ModelError(f"features lists {name!r}, which is {what}; take it out of features.")
        if name not in model.exclude:
            kinds[name] = kind
    if not kinds:
        raise ModelError("no feature is left: features lists none that exclude keeps; list at least one.")
    return kinds


def _ready(column: pd.Series, kind: Kind) -> Any:
    if kind == "number":
        return plain_numbers(column)
    if kind == "text":
        return column.astype(object).where(column.notna(), None).to_numpy()
    if kind != "date":
        return column.array
    moments = column.dt.to_timestamp() if isinstance(column.dtype, pd.PeriodDtype) else column
    days = (pd.to_datetime(moments, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)
    return np.asarray(days, dtype=np.float64)


def text_for(model: ModelSpec, table: pd.DataFrame, kinds: Mapping[str, Kind]) -> dict[str, str]:
    """Return why each text column is no feature where none are listed: "" where it repeats, or the model names it."""
    names = [name for name, kind in kinds.items() if kind == "text"]
    if not names:
        return {}
    estimator, own = model.unfitted, read_by_itself(model, table, kinds)
    others = bool(own) or (estimator is not None and _selects(estimator))
    unread = [name for name in names if name not in own]
    why = "text that the model, which chooses its columns itself, does not name"
    reasons = dict.fromkeys(unread, why) if others else {}
    for name in [] if others else unread:
        present, values = int(table[name].notna().sum()), int(table[name].nunique())
        if values == 1:
            reasons[name] = "text with one value"
        elif values * ROWS_A_VALUE > present:
            what = f"text of {values:,} values in {present:,} rows, fewer than {ROWS_A_VALUE} rows a value"
            reasons[name] = f"{what}; list it in features to have it encoded"
    return dict.fromkeys(names, "") | reasons


def read_by_itself(model: ModelSpec, table: pd.DataFrame, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """Return the text and categories that a recipe's estimator reads as they are; none for the default ones.

    A ``ColumnTransformer`` in it, or a parameter such as ``cat_features``, names them; an encoder at first takes all.
    """
    names = [name for name, kind in kinds.items() if kind in ("text", "category")]
    estimator = model.unfitted if names else None
    if estimator is None:
        return frozenset()
    first = estimator
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    if isinstance(first, BaseEstimator) and not isinstance(first, ColumnTransformer):
        tags = get_tags(first).input_tags
        if tags.categorical or tags.string:
            return frozenset(names)
    parts = [part for part in parts_of(estimator) if isinstance(part, ColumnTransformer)]
    selections = [columns for part in parts for _, _, columns in part.transformers]
    seen = feature_table(table, dict(kinds)) if any(callable(selector) for selector in selections) else table
    chosen = [columns(seen) if callable(columns) else columns for columns in selections]
    chosen += [value for key, value in estimator.get_params(deep=True).items() if key.rpartition("__")[2] in NAMING]
    # One column, several, or none; some are named by their number.
    selected = [column for columns in chosen for column in np.asarray(columns, dtype=object).ravel()]
    return frozenset({column for column in selected if isinstance(column, str)} & set(names))


def _selects(estimator: Any) -> bool:
    return any(isinstance(part, ColumnTransformer) for part in parts_of(estimator))


def encodings(
    model: ModelSpec, estimator: Any, X: pd.DataFrame, encoded: Collection[str], own: Collection[str]
) -> dict[str, str]:
    """Return how each feature that is text or a category becomes numbers.

    ``itself``: as the model reads it; ``categories``: those of a model that splits by them; else ``one-hot`` or
    ``ordinal`` by the recipe's ``text``. Listed text makes no categories, which would change scores.
    """
    splits = getattr(estimator, "categorical_features", None) == "from_dtype"
    by_default = splits and model.features is None and model.text == "onehot"
    ways = dict.fromkeys(encoded, {"onehot": ONE_HOT, "ordinal": ORDINAL}[model.text])
    native = [name for name in encoded if by_default or (splits and X[name].dtype == "category")]
    return ways | dict.fromkeys(native, CATEGORIES) | dict.fromkeys(own, ITSELF)


def encoding_step(
    model: ModelSpec, estimator: Any, X: pd.DataFrame, how: Mapping[str, str]
) -> tuple[list[tuple[str, Any]], Any]:
    """Return the step that encodes, or none, and the estimator, told which of its columns are then categories.

    Values never seen become zeros, -1, or missing; the rarest of text that was not listed count as one.
    """
    native = [name for name, way in how.items() if way == CATEGORIES]
    most = min(MOST_CATEGORIES, getattr(estimator, "max_bins", MOST_CATEGORIES + 1) - 1)
    coded = [name for name in native if X[name].dtype != "category" or X[name].nunique() > most]
    ordinal = partial(OrdinalEncoder, handle_unknown="use_encoded_value", unknown_value=-1)
    ways = [
        (ordinal(max_categories=most), coded),
        (_one_hot(model, estimator, X), [name for name, way in how.items() if way == ONE_HOT]),
        (ordinal(), [name for name, way in how.items() if way == ORDINAL]),
    ]
    used = [(encoder, names) for encoder, names in ways if names]
    if not used:
        return [], estimator
    plain = ITSELF in how.values() or _selects(estimator)  # what a model chooses by name keeps its name
    # As a frame, so that categories which stay keep their type.
    transformer = make_column_transformer(*used, remainder="passthrough", verbose_feature_names_out=not plain)
    if coded:
        first = f"{transformer.transformers[0][0]}__"
        uncoded = (f"remainder__{name}" for name in native if name not in coded)
        estimator = estimator.set_params(categorical_features=[*(first + name for name in coded), *uncoded])
    return [("encode", transformer.set_output(transform="pandas"))], estimator


def _one_hot(model: ModelSpec, estimator: Any, X: pd.DataFrame) -> OneHotEncoder:
    unknown, most = ("infrequent_if_exist", MOST_COLUMNS) if model.features is None else ("ignore", None)
    encoder = OneHotEncoder(handle_unknown=unknown, max_categories=most, sparse_output=False)
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    foreign = distribution_of(type(estimator)) != distribution_of(BaseEstimator)
    texts = [X[name] for name in X if not is_numeric_dtype(X[name].dtype)] if foreign else []
    marked = any(MARKS.search(str(value)) for column in texts for value in column.unique())
    return encoder.set_params(feature_name_combiner=column_name) if marked else encoder


def column_name(feature: str, value: Any) -> str:
    """Return the name of a value's column, each of ``MARKS`` as its code."""
    return MARKS.sub(lambda mark: f"%{ord(mark[0]):02x}", f"{feature}_{value}")
