"""Advice on placement: where pages should lie and threads run, predicted from histograms and tried on other runs.

Nothing is imported here: what applies a placement file on a host needs nothing of what learns one.
"""
