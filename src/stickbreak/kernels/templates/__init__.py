"""Strings cut into segments by templates of slots: sums over all segmentations."""
