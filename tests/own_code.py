"""Code of a user's own: a project with a factory that imports a transformer in a function, folds, and a notebook's."""

import importlib
import itertools
import os
import sys
from pathlib import Path

MODEL = '''
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

def make(alpha=1.0):
    """A model."""
    from .features import Times
    return make_pipeline(Times(), Ridge(alpha=alpha))
'''
FEATURES = """
from sklearn.base import BaseEstimator, TransformerMixin

class Times(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        return X * [1.0, 1.0]
"""
FOLDS = """
from sklearn.model_selection import KFold
from evenfold.splitters import KFold as Ours

class Theirs(KFold):
    shift = 0

class Mine(Ours):
    shift = 0
"""
# What no import path leads to.
CELL = '''
import functools
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
POWER = 2
LEFT = 1
def halved(function):
    @functools.wraps(function)
    def wrapper(values):
        return function(values) / 2
    return wrapper
@halved
def curved(values):
    return np.abs(values) ** POWER
class Curved(TransformerMixin, BaseEstimator):
    """A curve."""
    def __init__(self, by=1.0):
        super().__init__()
        self.by = by
    def fit(self, X, y=None):
        return self
    def transform(self, X):
        """Return it."""
        return curved(X) * self.by
class Steep(Ridge):
    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y, sample_weight)
model = make_pipeline(Curved(), FunctionTransformer(lambda X: X + 1), Steep())
'''
SHOP = {"shop/__init__.py": "", "shop/model.py": MODEL, "shop/features.py": FEATURES, "shop/folds.py": FOLDS}
_seconds = itertools.count(1)  # two edits within one would be one to Python's own cache of what it compiled


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        os.utime(folder / name, (moment := next(_seconds), moment))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "company")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    write(folder, {name: text.replace(old, new)})
