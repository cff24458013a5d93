"""Where stored models look for what balances their classes: skops files name it by this module.

A model in a registry outlives the layout of the package, and is loaded by processes that know nothing of it.
"""

from .models.fit import _oversampled as _oversampled, _undersampled as _undersampled
