"""Change one place of the source at a time and see whether a test fails: ``python tests/mutation [part ...]``.

Places are drawn with a seed, from the source as it is; each is changed in a copy of the repository, and the tests of
the part that run the changed function, quickest first and 15 seconds of them, are run there until one fails. What came
of it is kept in docs/results/mutation.json, and docs/mutation.md is written from that and from the verdicts in
docs/mutation.yaml. With ``--again`` only what survived is tried, against two minutes of the tests of now; a
place that is no longer in it is gone.
"""

import argparse
import ast
import io
import json
import re
import sys
from datetime import UTC, datetime
from typing import Any

import yaml
from changes import line_of, places
from parts import PARTS, ROOT, Mutant, mutants
from trials import try_all

RESULTS = ROOT / "docs" / "results" / "mutation.json"
VERDICTS, PAGE = ROOT / "docs" / "mutation.yaml", ROOT / "docs" / "mutation.md"
SEED = 20261122


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all of them if none is named")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--again", action="store_true", help="only what survived, against the tests of now")
    parser.add_argument("--page", action="store_true", help="only write the page")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in [] if asked.page else asked.parts or PARTS:
        if asked.again:
            kept = [Mutant(**known) for known in results[name]["mutants"]]
            for mutant in kept:
                _find_again(mutant)
            chosen, n_places = [mutant for mutant in kept if mutant.outcome == "survived"], results[name]["places"]
        else:
            n_places, chosen = mutants(PARTS[name], asked.seed)
            kept = chosen
        seed = results[name]["seed"] if asked.again else asked.seed
        about = {"date": datetime.now(UTC).date().isoformat(), "places": n_places, "seed": seed}
        for line in try_all(PARTS[name], chosen):
            tried = [vars(mutant) for mutant in kept if mutant.outcome]
            results[name] = about | {"mutants": tried}  # after each, so that a run may be ended at any time
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            sys.stderr.write(f"{name}: {line}\n")
            sys.stderr.flush()
    made = tables(results, yaml.safe_load(VERDICTS.read_text()) if VERDICTS.exists() else {})
    mark = re.compile(r"(<!-- results -->\n).*?(<!-- /results -->)", re.S)
    PAGE.write_text(mark.sub(lambda found: f"{found[1]}{made}{found[2]}", PAGE.read_text()))


def _find_again(mutant: Mutant) -> None:
    """Note which place a change that survived is of now: the nearest in its function that reads the same."""
    source = ROOT / mutant.file
    here = enumerate(places(ast.parse(source.read_text(encoding="utf-8"))) if source.exists() else ())
    alike = [
        i for i, (node, inside) in here if (inside or "(module)", line_of(node)) == (mutant.function, mutant.before)
    ]
    if mutant.outcome == "survived":
        mutant.place = min(alike, key=lambda i: abs(i - mutant.place), default=mutant.place)
        mutant.outcome = "survived" if alike else "gone"


def tables(results: dict[str, Any], verdicts: dict[str, str]) -> str:
    out = io.StringIO()
    out.write(HEAD)
    for name, found in results.items():
        outcomes = [Mutant(**known) for known in found["mutants"]]
        survived, killed, gone = (
            [mutant for mutant in outcomes if mutant.outcome == what] for what in ("survived", "killed", "gone")
        )
        equal = sum(verdicts.get(mutant.name, "").startswith("equal") for mutant in survived)
        since = sum(mutant.killed_since for mutant in outcomes)
        share = f"{100 * len(killed) / max(1, len(outcomes) - len(gone) - equal):.0f} %"
        drawn = f"{len(outcomes)}" + ("" if PARTS[name].sample is None else f" (seed {found['seed']})")
        cells = [found["date"], name, f"{found['places']:,}", drawn, len(killed), since, len(gone)]
        cells += [len(survived), equal, share]
        out.write(f"| {' | '.join(map(str, cells))} |\n")
    if any(mutant["outcome"] == "survived" for found in results.values() for mutant in found["mutants"]):
        out.write("\nWhat survived:\n\n| place | change | verdict |\n|---|---|---|\n")
    for found in results.values():
        for mutant in (Mutant(**known) for known in found["mutants"]):
            if mutant.outcome == "survived":
                before, after = (text.replace("|", "\\|") for text in (mutant.before, mutant.after))
                verdict = verdicts.get(mutant.name, "open")
                out.write(f"| `{mutant.file}`, `{mutant.function}` | `{before}` to `{after}` | {verdict} |\n")
    return out.getvalue()


HEAD = """| date | part | places | tried | killed | of these since | gone | survived | equal | score |
|---|---|---|---|---|---|---|---|---|---|
"""

if __name__ == "__main__":
    main()
