"""Queueing models beside the solvers that others publish: the same cases, each tool's answer and its processor time.

Peers are Octave's package ``queueing`` (Debian: ``octave-queueing``) and LINE (PyPI: ``line-solver``), the latter in
this interpreter or in the one that ``SERVSIM_LINE_PYTHON`` names. A peer that is not installed is left out, and the
table says why. PDQ is left out always: no package registry has it.

The time is that of one answer, model built and all, the best of several, without starting the interpreter.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from servsim.model import Closed, Network, Open, Station, solve

#: Seconds after which a peer's case is given up.
PATIENCE = 60
#: Seconds of processor time spent on repeating a case, at least one answer.
REPEAT = 0.5


@dataclass(frozen=True)
class Case:
    """One model: ``loads`` are populations, or rates where ``thinks`` is empty; ``demands`` by station, then class."""

    name: str
    loads: tuple[float, ...]
    thinks: tuple[float, ...]
    demands: tuple[tuple[float, ...], ...]
    servers: tuple[int, ...] = ()
    exact: bool = True

    def network(self) -> Network:
        """Return the model as servsim has it."""
        names = [f"c{c}" for c in range(len(self.loads))]
        loads = zip(names, self.loads, strict=True)
        classes: list[Closed | Open] = [Open(name, rate) for name, rate in loads]
        if self.thinks:
            each = zip(names, self.loads, self.thinks, strict=True)
            classes = [Closed(name, int(number), think) for name, number, think in each]
        servers = self.servers or (1,) * len(self.demands)
        stations = [
            Station(f"s{k}", dict(zip(names, demands, strict=True)), servers=servers[k])
            for k, demands in enumerate(self.demands)
        ]
        return Network(classes, stations)


_TEN = tuple((0.02 * k,) for k in range(1, 11))
_TWO = tuple((0.1 + 0.05 * (7 * k % 5), 0.1 + 0.05 * ((7 * k + 3) % 5)) for k in range(10))
_FORTY = tuple(tuple(0.001 * (1 + (7 * k + 3 * c) % 11) for c in range(40)) for k in range(40))
CASES = (
    Case("one class, N = 48, K = 10", (48,), (1.0,), _TEN),
    Case("one class, N = 1000, K = 10", (1000,), (1.0,), _TEN),
    Case("64 servers, N = 500, K = 3", (500,), (3.0,), ((1.0,), (0.01,), (0.012,)), (64, 1, 1)),
    Case("two classes, 24 x 24, K = 10", (24, 24), (2.0, 3.0), _TWO),
    Case("4 servers, N = 60, K = 3", (60,), (3.0,), ((0.2,), (0.03,), (0.04,)), (4, 1, 1)),
    Case("two classes, 500 x 500, K = 10, approximate", (500, 500), (2.0, 3.0), _TWO, exact=False),
    Case("40 classes of 40, K = 40, approximate", (40,) * 40, (1.0,) * 40, _FORTY, exact=False),
    Case("open, two classes, K = 3", (2.0, 3.0), (), ((0.1, 0.2), (0.3, 0.05), (0.02, 0.2))),
)

Answer = dict[str, Any]  # seconds and throughputs or, of open models, response times; or why there is none


def best(work: Callable[[], list[float]]) -> Answer:
    """Return an answer and the least processor time that it took."""
    began, least, spent = time.process_time(), float("inf"), 0.0
    while spent < REPEAT:
        once = time.process_time()
        figures = work()
        now = time.process_time()
        least, spent = min(least, now - once), now - began
    return {"seconds": least, "figures": figures}


def ours(case: Case) -> Answer:
    """Answer a case by servsim."""

    def work() -> list[float]:
        found = solve(case.network(), "auto" if case.exact else "linearizer")
        return [c["throughput" if case.thinks else "response"] for c in found.data["classes"]]

    return best(work)


def _matrix(rows: list[list[float]]) -> str:
    return "[" + "; ".join(" ".join(f"{x!r}" for x in row) for row in rows) + "]"


def octave_program(case: Case) -> str:
    """Return a case as a program of Octave that prints seconds, then figures."""
    by_class = [list(column) for column in zip(*case.demands, strict=True)]
    stations = len(case.demands)
    servers = _matrix([list(case.servers or (1,) * stations)])
    loads, demands, visits = _matrix([list(case.loads)]), _matrix(by_class), f"ones({len(by_class)}, {stations})"
    if not case.thinks:
        # Its visits are those of all arrivals together.
        ratios = f"{loads}' .* {visits} / sum({loads})"
        call = f"[U, R] = qnom({loads}, {demands}, {ratios}, {servers}); x = sum(R, 2)';"
    elif len(case.loads) == 1:
        call = f"[U, R, Q, X] = qncsmva({loads}, {demands}, {visits}, {servers}, {case.thinks[0]!r}); x = X(1);"
    else:
        solver = "qncmmva" if case.exact else "qncmmvabs"
        thinks = _matrix([list(case.thinks)])
        call = f"[U, R, Q, X] = {solver}({loads}, {demands}, {visits}, {servers}, {thinks}); x = X(:, 1)';"
    return (
        "warning('off', 'all'); pkg load queueing; least = inf; began = cputime;\n"
        f"while cputime - began < {REPEAT}, once = cputime; {call} least = min(least, cputime - once); end\n"
        "printf('%.17g ', [least x]);\n"
    )


def octave(case: Case) -> Answer:
    """Answer a case by Octave's package."""
    words = _run(["octave-cli", "--no-gui", "--no-init-file", "--eval", octave_program(case)]).split()
    return {"seconds": float(words[0]), "figures": [float(word) for word in words[1:]]}


#: What LINE runs: the case comes as JSON, the answer goes as JSON on the last line.
LINE_PROGRAM = """
import json, sys, time
from line_solver import *
GlobalConstants.set_verbose(VerboseLevel.SILENT)
case, repeat = json.loads(sys.argv[1]), float(sys.argv[2])

def build():
    model = Network("m")
    names, closed = range(len(case["loads"])), bool(case["thinks"])
    first = Delay(model, "users") if closed else Source(model, "source")
    servers = case["servers"] or [1] * len(case["demands"])
    queues = [Queue(model, f"s{k}", SchedStrategy.PS) for k in range(len(servers))]
    for queue, number in zip(queues, servers):
        queue.set_number_of_servers(number)
    chain = [first, *queues] + ([] if closed else [Sink(model, "sink")])
    classes = [
        ClosedClass(model, f"c{c}", case["loads"][c], first, 0) if closed else OpenClass(model, f"c{c}", 0)
        for c in names
    ]
    for c, each in enumerate(classes):
        if closed:
            first.set_service(each, Exp.fit_mean(case["thinks"][c]))
        else:
            first.set_arrival(each, Exp(case["loads"][c]))
        for k, queue in enumerate(queues):
            queue.set_service(each, Exp.fit_mean(case["demands"][k][c]))
    routes = model.init_routing_matrix()
    for each in classes:
        routes.set(each, each, Network.serial_routing(chain))
    model.link(routes)
    return model

def work():
    table = MVA(build(), method="exact" if case["exact"] else "lin").get_avg_table()
    rows = [table[table["JobClass"] == f"c{c}"] for c in range(len(case["loads"]))]
    if case["thinks"]:
        return [float(r[r["Station"] == "users"]["Tput"].iloc[0]) for r in rows]
    return [float(r["ResidT"].sum()) for r in rows]

began, least = time.process_time(), float("inf")
while time.process_time() - began < repeat:
    once = time.process_time()
    figures = work()
    least = min(least, time.process_time() - once)
print(json.dumps({"seconds": least, "figures": figures}))
"""


def line(case: Case) -> Answer:
    """Answer a case by LINE."""
    python = os.environ.get("SERVSIM_LINE_PYTHON", sys.executable)
    printed = _run([python, "-c", LINE_PROGRAM, json.dumps(asdict(case)), str(REPEAT)])
    return dict(json.loads(printed.strip().splitlines()[-1]))


def _run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    if not done.stdout.strip():
        lines = done.stderr.strip().splitlines() or ["no answer"]
        raise RuntimeError(next((line for line in lines if "error" in line.lower()), lines[-1]))
    return done.stdout


def missing() -> dict[str, str]:
    """Return the peers that cannot be asked here, each with the reason."""
    reasons = {"PDQ": "no package registry has it"}
    if shutil.which("octave-cli") is None:
        reasons["Octave queueing"] = "octave-cli is not installed (apt-get install octave-queueing)"
    python = os.environ.get("SERVSIM_LINE_PYTHON", sys.executable)
    known = "import importlib.util as u, sys; sys.exit(u.find_spec('line_solver') is None)"
    if subprocess.run([python, "-c", known], check=False).returncode != 0:
        reasons["LINE"] = f"{python} has no package line-solver (pip install line-solver; SERVSIM_LINE_PYTHON)"
    return reasons


PEERS: dict[str, Callable[[Case], Answer]] = {"Octave queueing": octave, "LINE": line}


def asked(peer: Callable[[Case], Answer], case: Case) -> Answer:
    """Return a peer's answer, or why there is none."""
    try:
        return peer(case)
    except subprocess.TimeoutExpired:
        return {"why": f"no answer in {PATIENCE} s"}
    except (RuntimeError, ValueError, KeyError, IndexError, OSError) as error:
        return {"why": str(error)}


def compare(cases: tuple[Case, ...], peers: dict[str, Callable[[Case], Answer]]) -> list[dict[str, Any]]:
    """Return a row for each case and tool: seconds, figures, and the largest distance from servsim's figures."""
    rows = []
    for case in cases:
        reference = ours(case)
        rows.append({"case": case.name, "tool": "servsim", **reference})
        for name, peer in peers.items():
            answer = asked(peer, case)
            if "figures" in answer:
                pairs = zip(answer["figures"], reference["figures"], strict=True)
                answer["apart"] = max(abs(theirs / own - 1) for theirs, own in pairs)
            rows.append({"case": case.name, "tool": name, **answer})
    return rows


def main() -> None:
    """Print the table and, last, one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    absent = missing()
    rows = compare(CASES, {name: peer for name, peer in PEERS.items() if name not in absent})
    print(f"{'case':<44} {'tool':<16} {'milliseconds':>12}  {'apart':>8}  answer")
    for row in rows:
        if "why" in row:
            print(f"{row['case']:<44} {row['tool']:<16} {'-':>12}  {'-':>8}  {row['why']}")
            continue
        figures = ", ".join(f"{x:.9g}" for x in row["figures"])
        apart = f"{row['apart']:.1e}" if "apart" in row else "-"
        print(f"{row['case']:<44} {row['tool']:<16} {1e3 * row['seconds']:>12.4g}  {apart:>8}  {figures}")
    for name, why in absent.items():
        print(f"{name} left out: {why}")
    known = [row for row in rows if "seconds" in row]
    named = [{"name": f"{r['case']} ({r['tool']})", "value": r["seconds"], "unit": "s"} for r in known]
    print(json.dumps({"schema": "servsim.bench.model-peers/1", "figures": named, "left_out": absent, "rows": rows}))


if __name__ == "__main__":
    main()
