"""Sweeps: a study file expanded to runs, each kept in a directory named by the hash of its inputs."""

from servsim.sweep.conduct import Outcome, Point, conduct
from servsim.sweep.study import Study, load, parse

__all__ = ["Outcome", "Point", "Study", "conduct", "load", "parse"]
