"""The parts of the house, the tests that should notice a change of each, and the places that are drawn."""

import ast
import copy
import random
from dataclasses import dataclass
from pathlib import Path

from changes import changes, line_of, places

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    """Files to change, the tests that should notice, and how many places are drawn; None: every one."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    sample: int | None = 60
    without: tuple[str, ...] = ()

    def files(self) -> list[Path]:
        """Return the source files below ROOT, in order."""
        found = [path for name in self.sources for path in _python(ROOT / name)]
        left_out = {path for name in self.without for path in _python(ROOT / name)}
        return sorted(set(found) - left_out)


def _python(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("*.py"))


PARTS = {
    "splitters": Part(("splitters",), ("tests/splitters",), sample=240, without=("splitters/conformance",)),
    "packing": Part(
        ("splitters/packing",),
        ("tests/splitters/test_golden.py", "tests/splitters/test_pack.py", "tests/splitters/test_pack_exchange.py"),
    ),
    "growth": Part(
        ("manifests/growth",),
        ("tests/manifests/growth", "tests/manifests/test_membership.py", "tests/splitters/test_quantiles.py"),
    ),
    "estimates": Part(("estimates",), ("tests/estimates",), without=("estimates/promotion.py",)),
    "promotion": Part(
        ("estimates/promotion.py",),
        ("tests/estimates/test_promotion.py", "tests/estimates/test_comparison.py"),
        sample=None,
    ),
}


@dataclass
class Mutant:
    """One change of one place; ``test`` failed of it, or none did."""

    file: str
    function: str
    place: int
    change: int
    before: str
    after: str
    outcome: str = ""
    test: str = ""
    killed_since: bool = False

    @property
    def name(self) -> str:
        """What its verdict stands under."""
        return f"{self.file} {self.function}: {self.before} -> {self.after}"


def mutants(part: Part, seed: int) -> tuple[int, list[Mutant]]:
    """Return how many places a part has, and a change of each that was drawn."""
    found = [
        Mutant(str(path.relative_to(ROOT)), inside or "(module)", number, 0, "", "")
        for path in part.files()
        for number, (_, inside) in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    draw = random.Random(seed)
    drawn = found if part.sample is None else draw.sample(found, min(part.sample, len(found)))
    for mutant in drawn:
        node, _ = list(places(ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))))[mutant.place]
        mutant.change = draw.randrange(len(changes(node)))
        mutant.before, mutant.after = line_of(node), line_of(changes(node)[mutant.change](copy.deepcopy(node)))
    return len(found), drawn


def changed(source: str, mutant: Mutant) -> str:
    """Return the source with the change in it."""
    tree = ast.parse(source)
    node, _ = list(places(tree))[mutant.place]
    new = changes(node)[mutant.change](copy.deepcopy(node))

    class Put(ast.NodeTransformer):
        def generic_visit(self, other: ast.AST) -> ast.AST:
            return new if other is node else super().generic_visit(other)

    return ast.unparse(ast.fix_missing_locations(Put().visit(tree)))
