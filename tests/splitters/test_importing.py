"""What a class comes from: the distribution and version that a score rests on."""

from __future__ import annotations

import importlib
from importlib.metadata import packages_distributions, version

import pytest
from evenfold.splitters.importing import distribution_of


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
