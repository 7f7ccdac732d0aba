"""Estimated demands of systems that are simulated elsewhere and sampled as a monitor does: how many intervals hold."""

import json
import os
import random
from collections.abc import Iterator

import pytest
from sampled_system import System
from servsim.model import fit

Sampled = tuple[System, str]


def _sampled(seed: int, count: int) -> Iterator[Sampled]:
    """Systems of one to three classes and stations, half with other work at one of them, and their measurements."""
    draw = random.Random(seed)
    for _ in range(count):
        classes, stations = draw.choice([1, 1, 2, 3]), draw.choice([1, 2, 3])
        demands = [[draw.uniform(0.01, 0.15) for _ in range(classes)] for _ in range(stations)]
        beside = [0.0] * stations
        if draw.random() < 0.5:
            beside[draw.randrange(stations)] = draw.choice([0.03, 0.06, 0.1])
        system = System(demands, draw.choice([1.0, 3.0]), beside)
        slowest = max(sum(own) / classes / (1.0 - other) for own, other in zip(demands, beside, strict=True))
        most = system.think / slowest * draw.uniform(0.5, 1.0)
        samples = []
        for index in range(draw.choice([4, 6, 12]) if classes == 1 else draw.choice([8, 16])):
            if classes == 1:
                users = [max(1, round(most * (index % 6 + 1) / 6))]
            else:
                users = [max(1, round(most / classes * draw.uniform(0.1, 1.2))) for _ in range(classes)]
            throughput, utilization = system.watched(draw, users, draw.choice([30.0, 100.0]))
            samples.append({"throughput": throughput, "utilization": utilization})
        names = {"classes": [f"c{c}" for c in range(classes)], "stations": [f"s{k}" for k in range(stations)]}
        yield system, json.dumps({**names, "sample": samples})


def _held(sampled: list[Sampled], method: str) -> tuple[float, float]:
    """Shares of intervals that hold the demand: of all stations, and of those with other work."""
    held: dict[bool, list[bool]] = {False: [], True: []}
    for system, measured in sampled:
        for found in fit(measured, method, is_json=True).data["demands"]:
            if found["low"] is None:
                continue
            station, name = int(found["station"][1:]), int(found["class"][1:])
            inside = found["low"] <= system.demands[station][name] <= found["high"]
            held[system.beside[station] > 0.0].append(inside)
    both = held[False] + held[True]
    print(f"{method}: {len(both)} intervals")
    return sum(both) / len(both), sum(held[True]) / len(held[True])


def _judge(seed: int, count: int, least: float, least_beside: float) -> None:
    sampled = list(_sampled(seed, count))
    for method in ("nnls", "kalman"):
        every, beside = _held(sampled, method)
        print(f"{method}: {every:.1%} hold, {beside:.1%} beside other work")
        assert every >= least and beside >= least_beside, (method, every, beside)


def test_demands_of_sampled_systems_are_within_their_intervals() -> None:
    _judge(2026, 60, 0.93, 0.9)


def test_intervals_say_their_level() -> None:
    levels = set()
    for _, measured in _sampled(2026, 30):
        found = fit(measured, "nnls", is_json=True).data
        busy = {one["station"] for one in found["background"]}
        for demand in found["demands"]:
            expected = 0.99 if demand["station"] in busy else 0.95
            assert demand["confidence"] == (None if demand["low"] is None else expected)
            levels.add(demand["confidence"])
        assert all(one["confidence"] == 0.99 for one in found["background"])
    assert {0.95, 0.99} <= levels


@pytest.mark.acceptance
def test_demands_of_many_sampled_systems_are_within_their_intervals() -> None:
    _judge(int(os.environ.get("SERVSIM_SEED", "7")), 600, 0.95, 0.94)
