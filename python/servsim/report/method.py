"""How a result was made, as a list of settings: what was measured, behind which warm-up, how often, on which seeds."""

from collections.abc import Mapping, Sequence

from servsim.report import wording
from servsim.report.format import clock
from servsim.result import Result, flat, number_at


def run_of(result: Result) -> list[tuple[str, str]]:
    """Return how many runs there were, what their intervals are over, and their seeds."""
    seeds = [number_at(replication, "seed") for replication in result.replications]
    known = [f"{seed:.0f}" for seed in seeds if seed is not None]
    span = known[0] if len(known) == 1 else f"{known[0]} … {known[-1]}" if known else "not recorded"
    return [
        ("replications", wording.runs(result)),
        ("intervals", wording.over_what(result)),
        ("seeds", span),
    ]


def counted_in(options: object) -> str:
    """Return what the options of a run count its warm-up in."""
    return "references" if isinstance(options, Mapping) and options.get("references") else "transactions"


def method_of(result: Result) -> list[tuple[str, str]]:
    """Return the method of a result with time."""
    done = result.values("transactions") or []
    counted = f"{done[0]:.0f}" if len(set(done)) == 1 else f"{min(done):.0f} to {max(done):.0f}"
    options = result.document.get("options")
    functional = options.get("functional_warmup") if isinstance(options, dict) else None
    return [
        ("transactions measured", f"{counted} per replication{_window(options)}"),
        ("warm-up", _said(result, ("warmup", "warmup_transactions"), counted_in(options))),
        *([("functional warm-up", str(functional))] if functional is not None else []),
        *run_of(result),
        ("random delay of memory", _perturbation(result)),
        ("engine", _said(result, ("engine",), "")),
        ("processor clock", clock(result.clock_hertz)),
    ]


def _window(options: object) -> str:
    """Say which of the trace's transactions were measured, where the result tells."""
    window = options.get("window") if isinstance(options, Mapping) else None
    if not isinstance(window, Mapping):
        return ""
    if "references" in window:
        return f", those that ended in {window['references']:,} references"
    chosen = ", chosen as its steady middle" if window.get("chosen_by") == "trace" else ""
    return f", number {window.get('first')} to {window.get('last')} of {window.get('of')} in the trace{chosen}"


def _perturbation(result: Result) -> str:
    machine = result.document.get("machine")
    settings = machine.get("perturbation") if isinstance(machine, Mapping) else None
    delay = settings.get("memory_delay") if isinstance(settings, Mapping) else None
    if delay is not None:
        return f"uniform over {delay}, mean unchanged"
    return _said(result, ("perturbation", "perturbation_cycles", "delay"), "")


def _said(result: Result, keys: Sequence[str], unit: str) -> str:
    """Return the first of the options that the result states, as text."""
    document = result.document
    for place in (document, document.get("options"), document.get("method")):
        for key in keys:
            if isinstance(place, Mapping) and place.get(key) is not None:
                value = place[key]
                text = ", ".join(f"{k} {v}" for k, v in flat(value)) if isinstance(value, Mapping) else str(value)
                named = f" {unit}" if unit and isinstance(value, int) else " cycles" if key.endswith("_cycles") else ""
                return text + named
    return "not recorded"
