"""Semi-Markov chains: segments with lengths of their own. `tables.py` has the conventions."""
