"""Advice on placement: where pages should lie and threads run, predicted from histograms and tried on other runs."""

from servsim.placement.advise import LEAST_GAIN, advise
from servsim.placement.greedy import assign, swap_threads
from servsim.placement.rules import Page, Rule, rules

__all__ = ["LEAST_GAIN", "Page", "Rule", "advise", "assign", "rules", "swap_threads"]
