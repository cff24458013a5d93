from .evaluation_page import evaluation_html as evaluation_html, fold_count_html as fold_count_html
from .split_charts import split_figures as split_figures
from .split_page import report_html as report_html
