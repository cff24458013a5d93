"""Sentences about the scores of an evaluation: each is said once, in units and direction as people read them."""

import re
from dataclasses import replace
from html import unescape

import pytest
from evenfold.estimates import Estimate
from evenfold.estimates.results import Interval
from evenfold.reports.evaluations.words import kept_promises
from evenfold.reports.page import Page, Paragraph, Remark, Section, Table, Tile, Verdict
from evenfold.reports.texts import page_note
from markdown_it import MarkdownIt


def estimate(metric: str, value: float, apparent: float, half: float = 0.05, level: float = 0.95) -> Estimate:
    interval = Interval(value - half, value + half, level, "a method")
    return Estimate(metric, "cross-validation", value, 0.1, None, 5, apparent=apparent, interval=interval)


NAMES = """[click](https://evil.example) ![x](//evil.example/t.png) [a]: //evil.example [a][b] <img/src=x> <b>x</b> <!--
https://evil.example www.evil.example &lt;b&gt; &#x202e; &#60;b> `code` **bold** _slanted_ ~~gone~~ a|b a\\|b \\`x`
# > - + \u202e \u2066 \x00 \x1b[2J a\u2029b""".replace("\n", " ").split(" ")
SEVERAL = ["1\r\n2", "a\n\n# b", "x\n- y", "<b\nx>", "![x\n](y)", "> x", "+ x", "a_b", "R2 [0.1, 0.2]", "p < 0.05"]


@pytest.mark.parametrize("name", [*NAMES, *SEVERAL])
def test_a_name_of_the_data_is_text_in_a_note(name: str) -> None:
    sections = [Section("joined", name, [Paragraph(name)])]
    page = Page(name, Verdict.LOOK, name, [Tile(name, name, name)], [Remark("note", name)], sections)
    note = page_note(page, {name: ""}, Table("", [[name, 3]], ["", name]))
    assert not re.search(r"\w://|www\.", note)  # which GitHub's kind of Markdown makes links
    html = MarkdownIt().enable(["table", "strikethrough"]).render(note)
    assert set(re.findall(r"<(\w+)", html)) <= {"p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert (html.count("<tr>"), html.count("<li>"), html.count("<p>")) == (4, 1, 3)
    letters = re.sub("[\u202e\u2066\x00\x1b]", "\ufffd", " ".join(name.splitlines()))
    assert unescape(html).count(letters.strip()) >= (8 if letters.strip() else 0)
    assert not re.search("[\u202e\u2066]", unescape(html))


def test_a_promise_is_kept_unless_the_intervals_part() -> None:
    """Later rows beside what was promised, by metric; without intervals nothing is claimed."""
    before = [estimate("r2", 0.5, 0.5, 0.1), estimate("neg_mean_absolute_error", -3.0, -3.0, 0.5)]
    assert kept_promises(before, before) == ["The scores are what was promised, as far as the intervals can tell."]
    worse = [estimate("r2", 0.2, 0.2, 0.08), estimate("neg_mean_absolute_error", -2.0, -2.0, 0.2)]
    assert kept_promises(worse, before) == [
        "R2 is worse than promised: the intervals do not meet.",
        "MAE is better than promised: the intervals do not meet.",
    ]


def test_a_promise_that_nobody_made_is_not_said_to_be_kept() -> None:
    nothing = ["No score can be held against a promise, which takes the same metric with an interval on both sides."]
    r2, mae = estimate("r2", 0.5, 0.5, 0.1), estimate("neg_mean_absolute_error", -3.0, -3.0, 0.5)
    without = replace(r2, interval=None)
    assert kept_promises([r2], []) == kept_promises([], []) == nothing
    assert kept_promises([r2], [mae]) == kept_promises([without], [r2]) == kept_promises([r2], [without]) == nothing
    assert kept_promises([r2, mae], [r2, without]) == ["R2 is what was promised, as far as the intervals can tell."]
