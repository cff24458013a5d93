from .charts import Picture as Picture
from .evaluations.decisions import (
    audit_page as audit_page,
    comparison_page as comparison_page,
    look_page as look_page,
    retraining_page as retraining_page,
)
from .evaluations.page import (
    SplitLink as SplitLink,
    beside_promises as beside_promises,
    evaluation_page as evaluation_page,
    summary_page as summary_page,
)
from .evaluations.studies import (
    Segment as Segment,
    segments_page as segments_page,
    study_page as study_page,
    study_pictures as study_pictures,
    tuning_page as tuning_page,
)
from .page import Origin as Origin, Page as Page, Verdict as Verdict
from .splits.page import report_html as report_html, verdict_of as verdict_of
