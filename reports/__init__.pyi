from .charts import Picture as Picture
from .evaluation_page import SplitLink as SplitLink, evaluation_html as evaluation_html
from .page import Origin as Origin, Page as Page, Verdict as Verdict
from .split_page import report_html as report_html, split_figures as split_figures, verdict_of as verdict_of
from .study_page import (
    fold_count_html as fold_count_html,
    fold_count_pictures as fold_count_pictures,
    strategies_html as strategies_html,
    strategy_pictures as strategy_pictures,
    study_svg as study_svg,
)
