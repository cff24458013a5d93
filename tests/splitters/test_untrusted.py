"""What names of classes and documents may ask for: nothing strange is imported, nothing costs without a bound."""

import importlib
import sys
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from evenfold.splitters import SplitError, errors, untrusted
from evenfold.splitters.naming import distribution_of
from evenfold.splitters.numbers import DEEPEST, require_bounded
from evenfold.splitters.untrusted import (
    ESTIMATOR,
    FUNCTION,
    PART,
    SPLITTER,
    UntrustedNameError,
    import_beforehand,
    read_document,
    require_trusted,
    resolve,
)


def test_a_class_is_of_the_distribution_that_python_says() -> None:
    known = packages_distributions()
    for name in ("sklearn.base:BaseEstimator", "yaml:YAMLObject", "evenfold.splitters:KFold",
                 "threadpoolctl:ThreadpoolController", "imblearn.base:BaseSampler"):  # fmt: skip
        module, _, thing = name.partition(":")
        package = known[module.partition(".")[0]][0]
        assert distribution_of(getattr(importlib.import_module(module), thing)) == f"{package}=={version(package)}"


def test_what_no_package_holds_is_named_by_its_module() -> None:
    made = type("Model", (), {"__module__": "of_nobody.models"})
    assert distribution_of(made) == "of_nobody"


def test_a_module_that_is_not_there_hinders_no_other_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sklearn.mixture", raising=False)
    import_beforehand(["sklearn.of_nobody", "sklearn.mixture"])
    assert "sklearn.mixture" in sys.modules


OWN = "evenfold.estimates:scaled_logistic_regression"
MAKER = "imblearn.pipeline:make_pipeline"
NAMES = [
    ("sklearn", "sklearn.svm:SVC", True),
    ("sklearn", OWN, True),
    ("", OWN, True),
    ("", "sklearn.svm:SVC", False),
    ("sklearn", "evenfold.splitters:KFold", False),
    ("sklearn,evenfold", "evenfold.splitters:KFold", False),
    ("sklearn", "sklearn.utils:Bunch", False),
    ("sklearn.utils", "sklearn.utils:Bunch", False),
    ("sklearn", "sklearn.linear_model._ridge:Ridge", False),
    ("sklearn", "sklearn.pipeline:clone", False),
    ("sklearn", "sklearn.pipeline:defaultdict", False),
    ("sklearn", "sklearn.pipeline:np", False),
    ("sklearn", "imblearn.pipeline:Pipeline", False),
    ("sklearn, imblearn", "imblearn.pipeline:Pipeline", True),
    ("imblearn.pipeline", "imblearn.pipeline:Pipeline", True),
    ("imblearn.pip", "imblearn.pipeline:Pipeline", False),
    ("imblearn", MAKER, False),
    (MAKER, MAKER, True),
    (MAKER, "imblearn.pipeline:Pipeline", False),
    ("os", "os:system", False),
    ("sklearn", "sklearn.svm", False),
    ("sklearn", "sklearn..svm:SVC", False),
]


@pytest.mark.parametrize(("allowed", "name", "trusted"), NAMES)
def test_a_deployed_run_imports_listed_classes_and_listed_functions(
    allowed: str, name: str, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENFOLD_ALLOWED_MODULES", allowed)
    if trusted:
        require_trusted(name, ESTIMATOR)
    else:
        with pytest.raises(UntrustedNameError):
            require_trusted(name, ESTIMATOR)


def test_what_cannot_be_imported_is_said_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "breaks_here.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for name, said in (
        ("breaks_here:Thing", "does not import: ZeroDivisionError: division by zero"),
        ("of_nobody_at_all:Thing", "no module named 'of_nobody_at_all'; install or correct it"),
        ("sklearn.svm:Thing", "module 'sklearn.svm' has no 'Thing'; correct the name"),
        ("sklearn.pipeline:make_pipeline", "names a function, not a splitter"),
        ("sklearn.svm:SVC", "is not a splitter: SVC has no split and no get_n_splits; name one such as"),
    ):
        with pytest.raises(SplitError, match=said):
            resolve(name, SPLITTER)
    with pytest.raises(SplitError, match="Bunch has no get_params and no set_params"):
        resolve("sklearn.utils:Bunch", PART)
    assert resolve("sklearn.feature_selection:f_regression", FUNCTION).__name__ == "f_regression"


def test_a_deployed_run_reads_what_lies_below_its_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENFOLD_CLOSED", "1")
    monkeypatch.setenv("EVENFOLD_DATA_ROOTS", "in")
    errors.require_readable(["in/rows.csv", "in/a::b.csv"])
    with pytest.raises(SplitError, match="is not below a folder"):
        errors.require_readable(["rows.csv"])


def nested(deep: int) -> str:
    return "[" * deep + "]" * deep


def test_values_are_nested_at_most_fifty_deep() -> None:
    read_document(nested(DEEPEST))
    for deep in (DEEPEST + 1, 5_000):
        with pytest.raises(ValueError, match="nested more than 50 deep"):
            read_document(nested(deep))
    within: list[object] = []
    within.append(within)
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        require_bounded(within)


def test_a_short_text_cannot_stand_for_a_million_values(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"]
    lists += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 7)]
    read_document("\n".join(lists[:3]))
    with pytest.raises(ValueError, match="there are more than 1,000,000 values; keep long lists in a table"):
        read_document("\n".join(lists))
    monkeypatch.setattr(untrusted, "MOST_VALUES", 3)  # which may have three names, and stand in one thing
    assert read_document("[&a [1, 2], *a]") == [[1, 2], [1, 2]]
    with pytest.raises(ValueError, match="values; keep"):
        read_document("[&a [1, 2], *a, 3]")


def test_mappings_that_are_merged_are_counted_before_they_are_made() -> None:
    """Each merges the one above twice: YAML would write out 2**40 entries to make a mapping of one."""
    assert read_document("a: &a {x: 1}\nb: {<<: *a, y: 2}") == {"a": {"x": 1}, "b": {"x": 1, "y": 2}}
    lines = ["a0: &a0 {x: 1}", *(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 40))]
    assert read_document("\n".join(lines[:10]))["a9"] == {"x": 1}
    with pytest.raises(ValueError, match="there are more than 1,000,000 values; keep long lists in a table"):
        read_document("\n".join(lines))
    with pytest.raises(ValueError, match="there are more than 1,000,000 values"):  # nor if each holds itself as well
        read_document("\n".join(line.replace("<<", f"s: *a{i}, <<") for i, line in enumerate(lines)))


def test_values_that_stand_in_several_places_are_looked_through_once() -> None:
    """Forty levels of a list that holds the one below twice would be 2**40 values to go through."""
    pair: list[object] = []
    for _ in range(40):
        pair = [pair, pair]
    require_bounded(pair)
    for _ in range(11):
        pair = [1, pair]
    with pytest.raises(ValueError, match="nested more than 50 deep"):
        require_bounded(pair)
