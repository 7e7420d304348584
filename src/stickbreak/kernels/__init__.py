"""Compiled loops: arrays in, arrays out; they know none of the library's classes."""
