"""Scores as people read them: an error is positive and lower is better, and an interval sets the digits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import floor, isfinite, log10

from evenfold.estimates.metrics.record import Metric
from evenfold.estimates.metrics.registry import metric_of
from evenfold.estimates.results import Estimate, FoldScore, Interval, in_percent
from evenfold.reports.page import Table, Verdict
from evenfold.splitters.errors import ModelError, amount, listed, verb


def direction(metric: Metric) -> str:
    """Return which way is better."""
    return "lower is better" if metric.lower_is_better else "higher is better"


def score_text(value: float, half_width: float | None = None) -> str:
    """Return a score with two digits of its interval's half width, else three of its own; at most six decimals."""
    if not isfinite(value):
        return "undefined"
    of = half_width if half_width and isfinite(half_width) else abs(value)
    digits = 3 if of == 0 else (1 if half_width else 2) - floor(log10(of))
    shape = ".3g" if digits > 6 and abs(value) < 1e-3 else f",.{min(max(digits, 0), 6)}f"
    text = f"{value:{shape}}"
    return text.lstrip("-") if not text.strip("-0.,") else text


def recorded_score(metric: str | None, value: float | None, half_width: float | None = None) -> str:
    """Return the score by a metric as people read it; of a metric that is unknown here, as it was recorded."""
    if metric is None or value is None:
        return ""
    try:
        reading = metric_of(metric)
    except ModelError:
        return f"{metric} {score_text(value, half_width)}"
    return f"{reading.title} {score_text(reading.shown(value), half_width)}"


def score_and_interval(metric: Metric, value: float, interval: Interval | None) -> tuple[str, str]:
    """Return a score and its interval in brackets, "" without one, as people read them."""
    if interval is None:
        return score_text(metric.shown(value)), ""
    read = interval.read(metric)
    half = (read.high - read.low) / 2
    return score_text(metric.shown(value), half), f"[{score_text(read.low, half)}, {score_text(read.high, half)}]"


def score_and_ends(metric: Metric, value: float, low: float | None, high: float | None) -> tuple[str, str]:
    """Return a score and the ends that it has, "-" without them, as people read them."""
    low, high = sorted(metric.shown(value if end is None else end) for end in (low, high))
    half = (high - low) / 2 or None
    ends = f"{score_text(low, half)} to {score_text(high, half)}" if half else "-"
    return score_text(metric.shown(value), half), ends


def headline(estimate: Estimate) -> tuple[str, str, str]:
    """Return the title of an estimate's metric, its value and its interval in brackets, as people read them."""
    metric = metric_of(estimate.metric)
    return metric.title, *score_and_interval(metric, estimate.value, estimate.interval)


def labelled(estimate: Estimate, about: str = "") -> tuple[str, str]:
    """Return an estimate's value, and its title, what it is ``about``, its level and its interval."""
    title, value, interval = headline(estimate)
    level = f" {in_percent(estimate.interval.level)}" if estimate.interval else ""
    return value, f"{title}{about}{level} {interval}".strip()


def scores_table(estimates: Sequence[Estimate]) -> Table:
    """Return the scores as people read them: errors are positive, and the interval sets the digits."""
    rows = []
    for estimate in estimates:
        title, value, interval = headline(estimate)
        level = in_percent(estimate.interval.level) if estimate.interval else "-"
        read, beside = metric_of(estimate.metric).shown, estimate.baseline.value if estimate.baseline else None
        read_off = (None if each is None else read(each) for each in (beside, estimate.apparent, estimate.fold_mean))
        figures = [*read_off, estimate.sd]
        without, seen, mean, sd = ("-" if each is None else score_text(each, estimate.resolution) for each in figures)
        spread = f"{mean} ({sd})" if estimate.sd is not None else "-"
        rows.append([title, estimate.method, value, f"{level} {interval}".strip(), without, spread, seen])
    head = ["metric", "method", "value", "interval", "without a model", "folds: mean (sd)", "on training rows"]
    return Table("Every estimate", rows, head)


def merged_sentences(sentences: Iterable[str]) -> list[str]:
    """Return each sentence once; those that say the same up to their colon, each of another metric, become one."""
    by_start: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentences):
        same, colon, figures = sentence.partition(": ")
        by_start.setdefault(same + colon, []).append(figures)
    return [same + "; ".join([*(figures.removesuffix(".") for figures in tails[:-1]), tails[-1]])
            for same, tails in by_start.items()]  # fmt: skip


def notes_of(estimates: Sequence[Estimate]) -> list[str]:
    """Return each note once, after the metrics that it is about, where these are not all and it names none itself."""
    about: dict[str, list[str]] = {}
    for estimate in estimates:
        for note in (*estimate.notes, *(estimate.interval.notes if estimate.interval else ())):
            about.setdefault(note, []).append(metric_of(estimate.metric).title)
    n_metrics, sentences = len({estimate.metric for estimate in estimates}), []
    for note, titles in about.items():
        of = list(dict.fromkeys(titles))
        of_some = len(of) < n_metrics and of[0] not in note
        sentences.append(f"{', '.join(of)}: {note}" if of_some else note)
    return sentences


def optimism(estimates: Sequence[Estimate]) -> str:
    """Return one sentence about metrics whose training score lies beyond the interval, the first in figures."""
    beyond = [each for each in last_of(estimates)
              if each.apparent is not None and each.interval and each.apparent > each.interval.high]  # fmt: skip
    if not beyond:
        return ""
    first, *others = beyond
    title, value, _ = headline(first)
    training = score_text(metric_of(first.metric).shown(first.apparent or 0.0), first.resolution)
    alike = listed([metric_of(estimate.metric).title for estimate in others])
    as_well = f"; {alike} {'is' if len(others) == 1 else 'are'} better on seen rows as well" if others else ""
    return f"Optimism: {title} is {training} on rows that the model has seen and {value} on new ones{as_well}."


def resolution(estimates: Sequence[Estimate]) -> str:
    """Return one sentence: the smallest differences from a model of another kind that these splits could show."""
    last = last_of(estimates)
    halves = [(metric_of(estimate.metric).title, estimate.resolution) for estimate in last]
    smallest = [f"{score_text(half, half)} {title}" for title, half in halves if half]
    if not smallest:
        return ""
    below = listed(smallest, len(smallest))
    unseen = f"differences below about {below} cannot be seen on these splits ({level_of(last)})"
    variants = "variants of one model are compared row by row, and told apart sooner"
    return f"Resolution: from a model of another kind, {unseen}; {variants}."


def why_good(estimates: Sequence[Estimate], verdict: Verdict) -> str:
    """Return the reasons for a good verdict: an audit, and where there is a baseline that the model has learnt more."""
    if verdict is not Verdict.GOOD:
        return ""
    besides = [estimate.baseline for estimate in estimates if estimate.baseline]
    listing = " or ".join(dict.fromkeys(beside.name for beside in besides if beside.difference > 0))
    better = all(beside.difference > 0 for beside in besides) and listing
    return f" The split passed its audit{f', and the model is better than predicting {listing}' if better else ''}."


def last_of(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Return the last estimate of each metric, the one that is meant to be read."""
    return list({estimate.metric: estimate for estimate in estimates}.values())


def scores_line(estimates: Sequence[Estimate]) -> str:
    """Return every estimate with its interval in one line, and its method where a metric has several."""
    times = Counter(estimate.metric for estimate in estimates)
    methods = [f"by {each.method}" if times[each.metric] > 1 else "" for each in estimates]
    heads = zip(estimates, methods, strict=True)
    return ", ".join(" ".join(filter(None, [*headline(estimate), method])) for estimate, method in heads)


def level_of(estimates: Sequence[Estimate]) -> str:
    """Return the level of their intervals, ``95 %``; nothing where none has an interval."""
    return next((in_percent(estimate.interval.level) for estimate in estimates if estimate.interval), "")


def look_words(estimates: Sequence[Estimate]) -> str:
    """Return a sentence on the intervals of a look at locked rows, which hold together with those of other looks."""
    wider = f"The interval is one of {level_of(estimates)}, wider than for a single look"
    return f"{wider}, so that it holds together with those of all other looks." if level_of(estimates) else ""


def kept_promises(estimates: Sequence[Estimate], promised: Sequence[Estimate]) -> list[str]:
    """Return a sentence for each metric that came out beyond its promised interval, else one for all."""
    apart, compared = [], []
    for estimate in estimates:
        before = next((one for one in reversed(promised) if one.metric == estimate.metric and one.interval), None)
        if before is None or before.interval is None or estimate.interval is None:
            continue
        compared.append(metric_of(estimate.metric).title)
        if estimate.interval.high < before.interval.low or estimate.interval.low > before.interval.high:
            side = "worse" if estimate.value < before.value else "better"
            apart.append(f"{compared[-1]} is {side} than promised: the intervals do not meet.")
    if not compared:
        return ["No score can be held against a promise, which takes the same metric with an interval on both sides."]
    of_some = f"{listed(compared)} {verb(len(compared), 'is', 'are')}"
    scores = "The scores are" if len(compared) == len(estimates) else of_some
    return apart or [f"{scores} what was promised, as far as the intervals can tell."]


def unit_of(scores: Sequence[FoldScore]) -> str:
    """Return the word for a split, by the names of the scores: fold, or split for any other."""
    return "fold" if scores and all(score.name.startswith("fold ") for score in scores) else "split"


def left_out_words(left_out: Mapping[str, str]) -> str:
    """Return which columns are no features, each after the beginning of its reason; nothing where all are."""
    columns = [f"{name} ({re.split('[;,] ', reason)[0]})" for name, reason in left_out.items()]
    return f"{amount(len(columns), 'column')} left out: {', '.join(columns)}" if columns else ""


WAYS = {"categories": "as categories to split by", "one-hot": "one-hot", "ordinal": "as ordinal codes"}


def encoding_words(encoded: Mapping[str, str]) -> str:
    """Return one sentence: which features are text or categories, and how they become numbers; else nothing."""
    of = {way: [name for name, how in encoded.items() if how == way] for way in WAYS}
    encodings = [f"{listed(names)} {WAYS[way]}" for way, names in of.items() if names]
    own = [name for name, how in encoded.items() if how not in WAYS]
    sentences = [f"encoded in each fold as its training rows say: {'; '.join(encodings)}"] if encodings else []
    sentences += [f"{listed(own)} as the model reads {'it' if len(own) == 1 else 'them'}"] if own else []
    return f"Text: {'; '.join(sentences)}." if sentences else ""


def failure_of(errors: Sequence[str], n_splits: int) -> str:
    """Return why there is no estimate, in a sentence."""
    kinds: dict[str, list[str]] = {}  # the same but for numbers is told once
    for error in errors:
        kinds.setdefault(re.sub(r"\d[\d,.]*", "0", error), []).append(error.removesuffix("."))
    sentences = [alike[0] + (f" ({len(alike) - 1} more alike)" if len(alike) > 1 else "") for alike in kinds.values()]
    return f"{len(errors)} of {max(n_splits, len(errors))} fits failed: {'; '.join(sentences[:3])}."
