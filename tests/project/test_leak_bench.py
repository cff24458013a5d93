"""The leak bench goes on where it was stopped."""

from __future__ import annotations

from pathlib import Path

from benchmarks.leaks.kept import Answer, Kept


def test_what_a_tool_said_of_a_table_is_asked_once_for_each_version_of_both(tmp_path: Path) -> None:
    """Of two looks at a table the warnings are united, and an error of one is kept beside them."""
    file, looks = tmp_path / "kept.jsonl", list[str]()

    def look(name: str) -> list[Answer]:
        looks.append(name)
        return [(["late", "copy"], ""), ([], "ValueError: no")]

    first = Kept(file).ask("tool", "1.0", "table a", lambda: look("first"))
    assert Kept(file).ask("tool", "1.0", "table a", lambda: look("again")) == first
    assert (first["alarms"], first["error"]) == (["copy", "late"], "ValueError: no")
    for version, digest in (("1.1", "table a"), ("1.0", "table b")):
        Kept(file).ask("tool", version, digest, lambda: look("changed"))
    assert looks == ["first", "changed", "changed"]


def test_a_line_that_was_cut_short_is_asked_again_and_the_lines_before_it_are_not(tmp_path: Path) -> None:
    """A kill in the middle of a write costs one answer."""
    file = tmp_path / "kept.jsonl"
    for digest in ("a", "b"):
        Kept(file).ask("tool", "1.0", digest, lambda: [([], "")])
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    asked = []
    for digest in ("a", "b"):
        Kept(file).ask("tool", "1.0", digest, lambda digest=digest: asked.append(digest) or [([], "")])
    assert asked == ["b"]
    assert len(Kept(file).known) == 2
