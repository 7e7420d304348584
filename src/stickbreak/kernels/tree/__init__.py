"""Binary trees with categories over sentences: sums over splits first, then one rule product."""
