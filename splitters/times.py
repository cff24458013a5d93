"""Times as numbers that can be compared, and the gaps between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from .errors import SplitError
from .numbers import is_real, is_whole, present

SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
LAST = 2**63 - 1
_GAP = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(" + "|".join(SECONDS) + r")s?\s*")
_ROWS = re.compile(r"\s*(\d+)\s*rows?\s*")


def times_of(values: Any, name: str) -> NDArray[Any]:
    """Return times, of any container, as int64 or float64 numbers, or as datetime64[us] in UTC; no zone stays none.

    Text, missing and infinite times, and such with and without time zones together, are SplitErrors.
    """
    array = present(values, name)
    if array.dtype.kind == "O":
        array = _from_objects(array.tolist(), name)
    if array.dtype.kind == "M":
        return array.astype("datetime64[us]")
    if array.dtype.kind not in "iuf":
        raise SplitError(f"{name} holds text or truth values; pass numbers, dates or timestamps.")
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise SplitError(f"{name} holds {array.max():,}, and whole numbers go up to 2**63 - 1; pass smaller ones.")
    numbers = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    if not np.isfinite(numbers).all():
        raise SplitError(f"{name} is infinite in {int(np.isinf(numbers).sum()):,} rows; drop those rows first.")
    return numbers


def _from_objects(values: list[Any], name: str) -> NDArray[Any]:
    if all(isinstance(value, Real) for value in values):
        return np.array(values)
    if not all(isinstance(value, date) for value in values):
        cure = "pass numbers, dates or timestamps (pandas.to_datetime reads text; in a CSV write 2024-12-31)"
        raise SplitError(f"{name} holds text or objects; {cure}.")
    zoned = {isinstance(value, datetime) and value.tzinfo is not None for value in values}
    if len(zoned) > 1:
        raise SplitError(f"{name} holds timestamps with and without a time zone; give all of them one.")
    if zoned == {True}:  # NumPy's times know no zones: what it is given is in UTC already
        values = [value.astimezone(UTC).replace(tzinfo=None) for value in values]
    return np.array(values, dtype="datetime64[us]")


def ends_of(values: Any, times: NDArray[Any] | None) -> NDArray[Any]:
    """Return when labels are known, of the kind of ``times`` (when rows happened); one before its time is an error."""
    ends = times_of(values, "label_end")
    if times is None:
        raise SplitError("label_end says when the targets of rows are known, and no time was given; pass time as well.")
    if (ends.dtype.kind == "M") != (times.dtype.kind == "M"):
        raise SplitError("label_end and time are not of one kind; pass numbers for both, or dates or timestamps.")
    early = np.flatnonzero(ends < times)
    if early.size:
        what = f"label_end is before time in {early.size:,} of {ends.size:,} rows (first at row {early[0]})"
        raise SplitError(f"{what}; correct those rows first.")
    return ends


def age_of(text: str) -> int:
    """Return the seconds in ``30s``, ``30m``, ``12h``, ``30d`` or ``4w``; raises SplitError for anything else."""
    units = {unit[0]: seconds for unit, seconds in SECONDS.items()}
    age = re.fullmatch(r"(\d+)([smhdw])", text.strip())
    if not age:
        raise SplitError(f"{text!r} is not an age; write a number and s, m, h, d or w, such as 30d.")
    return int(age[1]) * units[age[2]]


def gap_of(gap: Any, times: NDArray[Any], name: str = "gap") -> Any:
    """Return ``gap``, which an error calls ``name``, as something that can be added to ``times``.

    A number for numbers; for timestamps 0, a timedelta, or text such as "7 days" or "36 hours" (weeks to seconds).
    """
    stamps = times.dtype.kind == "M"
    if is_real(gap) and gap >= 0 and not (stamps and gap) and not (is_whole(gap) and gap > LAST):
        return np.timedelta64(0, "us") if stamps else gap
    length = gap // timedelta(microseconds=1) if isinstance(gap, timedelta) else None
    if isinstance(gap, str) and (match := _GAP.fullmatch(gap)):
        # By fractions: as a float, 0.1 of a day would not be a whole number of microseconds.
        length = int(Fraction(match[1]) * SECONDS[match[2]] * 1_000_000)
    # Added to a time of our days it must be one that 64 bits hold.
    if stamps and length is not None and 0 <= length < 2**62:
        return np.timedelta64(length, "us")
    wanted = "text such as '7 days' or '36 hours'" if stamps else "a number from 0 to 2**63 - 1, in the unit of time"
    raise SplitError(f"{name}={gap!r} for {'timestamps' if stamps else 'times that are numbers'}; choose {wanted}.")


def later(times: Any, gap: Any) -> Any:
    """Return ``times`` (times, or one of them) and a gap more, at most 2**63 - 1, beyond which time turns round."""
    gap = gap_of(gap, times)
    if times.dtype.kind == "M":
        return np.minimum(times, np.datetime64(LAST, "us") - gap) + gap
    return np.minimum(times, LAST - gap) + gap if times.dtype.kind == "i" and is_whole(gap) else times + gap


def rows_in(gap: Any) -> int | None:
    """Return how many rows a gap such as "10 rows" stands for; None for a length of time."""
    match = _ROWS.fullmatch(gap) if isinstance(gap, str) else None
    return int(match[1]) if match else None


Calendar = Literal["day", "week", "month", "quarter", "year"]
CALENDAR = get_args(Calendar)


def unit_and_zone(every: Any) -> tuple[Calendar, ZoneInfo | None]:
    """Return what ``every`` names: a unit of the calendar, and the time zone whose clocks count (None: UTC)."""
    unit: Any
    unit, zone = (every.get("unit"), every.get("zone")) if isinstance(every, Mapping) else (every, None)
    if unit not in CALENDAR or (isinstance(every, Mapping) and set(every) != {"unit", "zone"}):
        raise SplitError(
            f"every={every!r}; choose {', '.join(CALENDAR[:-1])} or {CALENDAR[-1]}, or such as "
            "{'unit': 'month', 'zone': 'Europe/Berlin'}."
        )
    try:
        return unit, None if zone is None else ZoneInfo(zone)
    except (LookupError, ValueError, TypeError, OSError):
        raise SplitError(f"zone={zone!r} names no time zone; choose one such as 'Europe/Berlin'.") from None


def calendar_units(times: NDArray[Any], every: Any) -> NDArray[np.int64]:
    """Return the number of the day, week (from Monday), month, quarter or year that each timestamp lies in.

    In UTC, or by the clocks of a zone (``unit_and_zone``); timestamps without a zone are taken for UTC then.
    """
    unit, zone = unit_and_zone(every)
    if times.dtype.kind != "M":
        raise SplitError(f"every={every!r} for times that are numbers; pass dates or timestamps, or choose test_size.")
    if zone is not None:
        # Looked up by quarters of an hour: within one, clocks are not changed (of today's zones).
        quarters, at = np.unique(times.astype("datetime64[15m]"), return_inverse=True)
        moments = quarters.astype("datetime64[us]").tolist()
        offsets = [moment.replace(tzinfo=UTC).astimezone(zone).utcoffset() for moment in moments]
        times = times + np.array(offsets, dtype="timedelta64[us]")[at.reshape(-1)]
    if unit in ("day", "week"):
        days = times.astype("datetime64[D]").astype(np.int64)
        return days if unit == "day" else (days + 3) // 7  # 1970 began on a Thursday
    months = times.astype("datetime64[M]").astype(np.int64)
    return np.asarray(months // {"month": 1, "quarter": 3, "year": 12}[unit])
