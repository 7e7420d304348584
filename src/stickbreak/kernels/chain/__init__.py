"""Compiled loops of Markov chains."""
