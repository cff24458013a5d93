from .charts import Picture as Picture
from .evaluations.configurations import tuning_page as tuning_page
from .evaluations.decisions import (
    audit_page as audit_page,
    comparison_page as comparison_page,
    look_page as look_page,
    retraining_page as retraining_page,
)
from .evaluations.page import (
    SplitLink as SplitLink,
    beside_promises as beside_promises,
    evaluation_band as evaluation_band,
    evaluation_page as evaluation_page,
    listing_page as listing_page,
)
from .evaluations.studies import (
    fold_count_html as fold_count_html,
    fold_count_pictures as fold_count_pictures,
    strategies_html as strategies_html,
    strategy_pictures as strategy_pictures,
    study_svg as study_svg,
)
from .page import Origin as Origin, Page as Page, Verdict as Verdict
from .splits.page import report_html as report_html, verdict_of as verdict_of
