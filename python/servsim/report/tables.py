"""Tables of the report: figures with their interval, settings side by side, raw replications."""

from collections.abc import Sequence

from markupsafe import Markup

from servsim.report.charts.svg import tag
from servsim.result import flat
from servsim.result_warnings import ResultWarning


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> Markup:
    """Return a table whose first column names the row; a wide one scrolls within its own frame."""
    top = tag("tr", *(tag("th", cell, scope="col") for cell in head))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    inner = tag("table", tag("thead", top), tag("tbody", *body), class_=kind)
    return tag("div", inner, class_="scroll", tabindex=0, role="region", aria_label=head[0] or "table")


def pairs(entries: Sequence[tuple[str, str]]) -> Markup:
    """Return a list of settings: name and value, in which what stands between backticks is code."""
    items = [tag("div", tag("dt", name), tag("dd", *with_code(value))) for name, value in entries]
    return tag("dl", *items, class_="pairs")


def with_code(text: str) -> list[str]:
    """Split a sentence so that what stands between backticks becomes code."""
    return [tag("code", part) if index % 2 else part for index, part in enumerate(text.split("`"))]


def warning_list(warnings: Sequence[ResultWarning]) -> Markup:
    """Return warnings as a list, each with its rank."""
    items = [
        tag("li", tag("b", warning.rank.capitalize()), " ", *with_code(warning.text), class_=warning.rank)
        for warning in warnings
    ]
    return tag("ul", *items, class_="warnings")


def details(summary: str, body: Markup) -> Markup:
    """Return a block that opens on request."""
    return tag("details", tag("summary", summary), body)


def side_by_side(trees: Sequence[object], heads: Sequence[str]) -> Markup:
    """Return settings of several results in columns, those that differ first and the rest on request."""
    columns = [dict(flat(tree)) for tree in trees]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    rows = [[key, *(column.get(key, "\N{EN DASH}") for column in columns)] for key in keys]
    different = [row for row in rows if len(set(row[1:])) > 1]
    same = [row[:2] for row in rows if len(set(row[1:])) == 1]
    parts = [table(["setting", *heads], different, "settings")] if different else []
    if same:
        parts.append(details(f"{len(same)} settings in common", table(["setting", "value"], same, "settings")))
    return tag("div", *parts)
