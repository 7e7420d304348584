"""Compiled loops: arrays in, arrays out; they know nothing of the library's classes."""
