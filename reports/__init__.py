"""Pages and pictures of splits and evaluations. Pure: nothing below imports it."""

from .evaluation_page import evaluation_html, fold_count_html
from .split_charts import split_figures
from .split_page import report_html

__all__ = ["evaluation_html", "fold_count_html", "report_html", "split_figures"]
