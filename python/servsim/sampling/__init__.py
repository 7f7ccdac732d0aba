"""Sampled simulation: as many windows of a trace as a promised precision needs, instead of the whole trace."""

from servsim.sampling.estimates import refuse_unsuitable, summary, unknown_of
from servsim.sampling.runs import precision_of, sample

__all__ = ["precision_of", "refuse_unsuitable", "sample", "summary", "unknown_of"]
