"""A page per check of the audit, from the rules themselves, findings.yaml and the results of the leak benches."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from evenfold.manifests.audits.findings import GATES, Gate

WORDS = yaml.safe_load((Path(__file__).parent / "findings.yaml").read_text(encoding="utf-8"))


LEAKS = Path(__file__).parent.parent / "benchmarks" / "leaks"


def planted() -> dict[str, list[set[str]]]:
    """Return which checks find each planted leak, of those that others planted and of those that we did."""
    others, ours = (json.loads((LEAKS / f"{name}.json").read_text(encoding="utf-8")) for name in ("others", "planted"))
    alarms, without = ours["evenfold"]["alarms"], ours["about"]["without"]
    new = [set(alarms[leak]) - set(alarms[clean]) for leak, clean in without.items()]
    return {
        "others": [set(found) for found in others["leaks"].values()],
        "we": [{alarm.split()[0] for alarm in found} for found in new],
    }


def recall(check: str) -> str:
    """Return of how many planted leaks a check tells, and how many would be missed without it."""
    counts = [
        f"{sum(check in found for found in leaks)} of {len(leaks)} leaks that {who} planted "
        f"({sum(found == {check} for found in leaks)} alone)"
        for who, leaks in planted().items()
        if any(check in found for found in leaks)
    ]
    return f"\n**Finds** {' and '.join(counts)}.\n" if counts else ""


def pages() -> dict[str, str]:
    """Return the text of each page by its path: a table of all checks, and a page for each."""
    return {f"findings/{gate.code}.md": page(check, gate) for check, gate in GATES.items()} | {"findings.md": index()}


def index() -> str:
    """Return the table of every check."""
    rows = "".join(
        f"| [{gate.code}](findings/{gate.code}.md) | `{check}` | {gate.figure} | {_verdict(gate)} |\n"
        for check, gate in GATES.items()
    )
    entries = "\n".join(f"findings/{gate.code}" for gate in GATES.values())
    return (
        "# Every finding\n\nWhat an audit asks. A number never changes its meaning.\n\n"
        f"| number | gate | figure | beyond its limit |\n|---|---|---|---|\n{rows}\n"
        f"```{{toctree}}\n:hidden:\n\n{entries}\n```\n"
    )


def page(check: str, gate: Gate) -> str:
    """Return what a finding means, why it matters, an example, how to mend it and how to silence it."""
    words = WORDS[gate.code]
    limit = "no limit is set" if gate.limit is None else f"the limit is {gate.limit:g}"
    return f"""# {gate.code}: {check.replace("_", " ")}

**What.** {gate.figure[0].upper()}{gate.figure[1:]}; {limit}: {_verdict(gate)}.

**Why.** {words["why"]}

**Example.** {words["example"]}

**Mend.** {words["mend"]}
{recall(check)}
**Silence.** With a reason of three words or more, which is recorded with what was found, in the specification:

```yaml
ignore:
  {gate.code}: why this is no fault here
```

or `--ignore {gate.code}='why this is no fault here'`. Another limit: `gates: {{{check}: 10}}`; without the check:
`gates: {{{check}: off}}`.
"""


def _verdict(gate: Gate) -> str:
    return "a note" if gate.limit is None else "the audit fails" if gate.fails else "a warning"
