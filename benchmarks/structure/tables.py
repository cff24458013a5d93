"""Tables whose rows hang together in more ways than one column can say. All seeds are fixed."""

from __future__ import annotations

import numpy as np
import pandas as pd

DAY = pd.Timedelta(days=1)


def visits(clinics: int, elsewhere: float, a_clinic: tuple[int, int] = (30, 3), n: int = 3000) -> pd.DataFrame:
    """Return visits, each pair of patient and device once: most on a device of the patient's own clinic."""
    random = np.random.default_rng([clinics, round(elsewhere * 1000)])
    patients, devices = a_clinic
    clinic = random.integers(0, clinics, n)
    at = np.where(random.random(n) < elsewhere, random.integers(0, clinics, n), clinic)
    frame = pd.DataFrame(
        {
            "patient": clinic * patients + random.integers(0, patients, n),
            "device": at * devices + random.integers(0, devices, n),
            "age": random.normal(size=n),
        }
    ).drop_duplicates(["patient", "device"], ignore_index=True)
    risk = random.normal(size=clinics * patients)[frame["patient"]]
    frame["sick"] = (risk + random.normal(size=len(frame)) > 0.8).astype(int)
    return frame


def labels_in_time(n: int = 20_000, together: int = 20) -> pd.DataFrame:
    """Return rows in order of time, ``together`` at each, whose labels are known up to 30 days later."""
    random = np.random.default_rng(n)
    time = pd.Timestamp("2020-01-01") + np.repeat(np.arange(n // together), together) * (DAY / 4)
    return pd.DataFrame({"time": time, "known": time + pd.to_timedelta(random.exponential(4, n).clip(0.01, 30), "D")})


def places(n: int = 5000) -> pd.DataFrame:
    """Return places on a map of 100 by 100, in clusters, of two classes of which one lives in the north."""
    random = np.random.default_rng(n)
    centre = random.uniform(0, 100, (60, 2))[random.choice(60, n, p=random.dirichlet(np.ones(60)))]
    where = (centre + random.normal(size=(n, 2)) * 6).clip(0, 100)
    return pd.DataFrame(where, columns=["east", "north"]).assign(
        kind=np.where(random.random(n) < where[:, 1] / 250, "rare", "common")
    )
