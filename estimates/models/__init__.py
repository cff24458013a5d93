"""The specification of a model, the columns that it reads, and the fit."""
