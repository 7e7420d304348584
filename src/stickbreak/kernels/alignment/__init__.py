"""Compiled loops of word alignment."""
