"""Splits of data as a first-class step for scheduled retraining with Prefect and MLflow."""

from evenfold.splitters.display import draw_with


def _drawn(result: object) -> str | None:
    # Here, above all rooms, what draws is bound to what is drawn; loaded when a notebook first shows a result.
    from evenfold.reports.notebook import drawn

    return drawn(result)


draw_with(_drawn)
