"""Statistics of replications: intervals and comparisons, on NumPy and SciPy only."""
