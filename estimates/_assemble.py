"""Names by which skops files of stored models find the samplers that balance classes; they outlive any layout."""

from .models.fit import _oversampled as _oversampled, _undersampled as _undersampled
