"""What a class comes from: the distribution and version that a score rests on."""

from __future__ import annotations

import importlib
import sys
from importlib.metadata import packages_distributions, version

import pytest
from evenfold.splitters.importing import UntrustedNameError, distribution_of, import_beforehand


@pytest.mark.parametrize("name", ["sklearn.base:BaseEstimator", "yaml:YAMLObject", "evenfold.splitters:KFold",
                                  "threadpoolctl:ThreadpoolController", "imblearn.base:BaseSampler"])  # fmt: skip
def test_a_class_is_of_the_distribution_that_python_says(name: str) -> None:
    """Found in the lists of files as the standard library finds it, which reads those of every package for it."""
    module, _, thing = name.partition(":")
    known = packages_distributions()[module.partition(".")[0]][0]
    assert distribution_of(getattr(importlib.import_module(module), thing)) == f"{known}=={version(known)}"


def test_what_no_package_holds_is_named_by_its_module() -> None:
    made = type("Model", (), {"__module__": "of_nobody.models"})
    assert distribution_of(made) == "of_nobody"


def test_nothing_strange_is_imported_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of ours that is absent is left out; another one's module is refused before anything is imported."""
    for name in ("antigravity", "sklearn.mixture", "sklearn_of_mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for strange in ("antigravity", "sklearn_of_mine"):
        with pytest.raises(UntrustedNameError, match=strange):
            import_beforehand(["sklearn.mixture", strange])
    assert "sklearn.mixture" not in sys.modules
    import_beforehand(["sklearn.of_nobody", "sklearn.mixture"])
    assert "sklearn.mixture" in sys.modules
