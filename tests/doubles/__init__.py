"""Small but real structures, priors and a rule that plug into the library from outside: they prove
the contract.
"""
