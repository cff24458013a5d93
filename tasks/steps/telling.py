"""What a flow tells Prefect of a run, beside its results: artifacts, lines of its log, tags, assets and events.

Nothing is told where no run of Prefect's is under way, and nothing is computed from what was told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal
from uuid import UUID

from evenfold.tasks.runtime.progress import log
from evenfold.tasks.runtime.redaction import redacted
from prefect import get_client
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.assets import Asset, AssetProperties
from prefect.context import AssetContext, FlowRunContext
from prefect.events import emit_event

from .running import under_prefect


def publish(name: str, content: str | list[dict[str, object]], description: str) -> None:
    """Show Markdown, or the rows of a table, as an artifact of the run under way, where there is one.

    ``name`` is the same from run to run, so that Prefect shows how a split or a score went on.
    """
    if not under_prefect():
        return
    key = re.sub(r"[^a-z0-9]+", "-", f"evenfold-{name}".lower()).strip("-")
    if isinstance(content, str):
        create_markdown_artifact(content, key=key, description=description)
    elif content:
        create_table_artifact(content, key=key, description=description)


def tell(sentences: Iterable[str]) -> None:
    """Write sentences to the log of the run under way, where there is one: what the terminal says, too."""
    if under_prefect():
        for sentence in sentences:
            log(sentence)


def mark(tag: str) -> None:
    """Give the flow run under way a tag by which it is found, such as ``split:flights``."""
    flow = FlowRunContext.get()
    if flow is None or flow.flow_run is None or not under_prefect() or tag in flow.flow_run.tags:
        return
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow.flow_run.id, tags=[*flow.flow_run.tags, tag])
    flow.flow_run.tags.append(tag)


def materialized(key: str, upstream: str, name: str, url: str, facts: dict[str, object]) -> None:
    """Say that the task run under way made an asset of data ``upstream``: Prefect's events tell it when the run ends.

    A cached task tells none, so only what always runs may call this.
    """
    context = AssetContext.get()
    if context is None or not under_prefect():
        return
    asset = Asset(key=key, properties=AssetProperties(name=name, url=url) if url else AssetProperties(name=name))
    context.downstream_assets.add(asset)
    context.direct_asset_dependencies.add(Asset(key=upstream))
    context.materialized_by = "evenfold"
    context.add_asset_metadata(key, facts)
    context.update_tracked_assets()


Happening = Literal["split.extended", "audit.failed", "champion.promoted", "retrain.failed", "retrain.asked"]


def happened(what: Happening, split: str, words: str, id: UUID | None = None, **facts: Any) -> None:
    """Tell Prefect what has happened to a split, as the event ``evenfold.<what>`` that automations listen to.

    Only where a flow run is under way on a server; ``words`` says it in a sentence. ``id``: of what happens once,
    however many runs tell it; Prefect takes an event of each id once.
    """
    if under_prefect():
        tell_of(what, split, words, id, **facts)


def tell_of(what: Happening, split: str, words: str, id: UUID | None = None, **facts: Any) -> None:
    """Send the event ``evenfold.<what>`` that ``happened`` sends, also where the run has ended, as in its hooks."""
    about = {"prefect.resource.id": f"evenfold.split.{split}", "prefect.resource.name": split}
    emit_event(event=f"evenfold.{what}", resource=about, payload={"words": redacted(words), **facts}, id=id)
