"""Brute-force oracles: slow, direct formulas."""
