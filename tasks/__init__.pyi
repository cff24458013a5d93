from .fits import fit_final as fit_final, fit_fold as fit_fold
from .outcomes import (
    Champion as Champion,
    Evaluated as Evaluated,
    FinalModel as FinalModel,
    FitResult as FitResult,
    Growth as Growth,
    Look as Look,
    Registered as Registered,
    RunRef as RunRef,
    SplitRef as SplitRef,
)
from .record.evaluations import record_evaluation as record_evaluation
from .record.models.committing import Withdrawn as Withdrawn, withdraw as withdraw
from .record.models.registered import (
    RolledBack as RolledBack,
    champion_as_of as champion_as_of,
    read_champion as read_champion,
    replay as replay,
    roll_back as roll_back,
)
from .record.models.retraining import Retraining as Retraining, register_model as register_model
from .record.splits import load_split as load_split, record_split as record_split
from .record.studies import (
    log_scores as log_scores,
    record_look as record_look,
    record_look_scores as record_look_scores,
)
from .runtime.home import (
    Home as Home,
    Settings as Settings,
    data_reference as data_reference,
    locked as locked,
    prepare_environment as prepare_environment,
)
from .runtime.progress import room as room
from .scores import aggregate as aggregate
from .splits import audit_split as audit_split, extend as extend, split as split
