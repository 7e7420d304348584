"""Trees with subtypes of their symbols: given trees, and charts over listed rules."""
