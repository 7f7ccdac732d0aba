"""A result in a notebook: the report's answer, throughput and processor time, in a frame of its own.

The frame keeps the report's style sheet from the notebook's, and the notebook's from the report's.
"""

from markupsafe import escape

from servsim.report import render
from servsim.result import Result, number_at

#: Sections that are shown, and the frame's height in pixels.
SHOWN = ("warnings", "throughput", "time")
HEIGHT = 560


def frame(result: Result) -> str:
    """Return a result as an element of HTML; one that knows no time is named only."""
    timed = [number_at(run, key) for run in result.replications for key in ("cycles", "transactions")]
    if not all(timed):
        return f"<pre>{escape(repr(result))}</pre>"
    return (
        f'<iframe srcdoc="{escape(render([result], SHOWN))}" sandbox title="{escape(repr(result))}" '
        f'style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'
    )
