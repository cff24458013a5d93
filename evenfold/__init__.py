"""Splits of data as a first-class step for scheduled retraining with Prefect and MLflow."""

from pathlib import Path
from typing import Any

# The names that most users need stand in __init__.pyi, and are imported when they are asked for.
from lazy_loader import attach_stub

# In a checkout the rooms stand beside this folder, which there hides an installed package of the same name.
if not Path(__file__).with_name("splitters").is_dir():
    __path__.append(str(Path(__file__).parents[1]))

from evenfold.splitters.errors import bind

_named, _, _names = attach_stub(__name__, __file__)
__all__ = [*_names, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("evenfold")
    return _named(name)


def _drawn(result: object) -> str | None:
    # Here, above all rooms, what draws is bound to what is drawn; loaded when a notebook first shows a result.
    from evenfold.reports.texts import page_of

    page = page_of(result)
    return page.band() if page else None


def _found(split: Any) -> Path:
    from evenfold.tasks.references import manifest_folder

    return manifest_folder(split)


def __dir__() -> list[str]:
    return sorted(__all__)


bind(draw=_drawn, find=_found)
