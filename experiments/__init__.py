"""Published comparisons, re-run: one small file each, `run() -> Experiment`."""
