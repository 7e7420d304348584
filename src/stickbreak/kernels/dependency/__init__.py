"""Projective dependency trees whose heads decide, side by side, when to stop: split heads, n^3."""
