"""The pictures of a split that has something to show in them, as SVG figures."""

from __future__ import annotations

from collections.abc import Iterator

from ._report_data import Seen, cumulative, group_blocks
from ._report_groups import group_picks, groups, grown, inclusion
from ._report_map import row_map, sizes
from ._report_target import class_shares, differences, distributions


def figures(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """Yield (id, heading, HTML figure) of every picture that this split has something to show in."""
    yield "sizes-picture", "Rows per split", sizes(seen)
    yield "map", "Which rows each split trains and tests on", row_map(seen)
    if seen.balance.classes is not None and seen.balance.shares is not None:
        yield "classes", "Class shares", class_shares(seen)
    curves = cumulative(seen)
    if curves is not None:
        yield "target", "Target distribution", distributions(seen, curves) + differences(seen, curves)
    blocks = group_blocks(seen)
    if blocks is not None:
        yield "groups", "Groups", groups(seen, blocks)
    if seen.picks is not None:
        yield "picks", "How often each group is drawn", group_picks(seen)
    if "out_of_bag" in seen.manifest.splitter.promises:
        yield "inclusion", "How often a row is drawn", inclusion(seen)
    if seen.manifest.born is not None:
        yield "generations", "Generations", grown(seen)
