"""Validation on real hardware: changes predicted from one calibrated base, beside native runs of this host."""
