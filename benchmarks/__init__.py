"""Speed, memory and held-out quality, as ratios taken in one run. `python -m benchmarks.run` runs
all and writes RESULTS.md.
"""
