"""A campaign of attacks: mutated models and files, and what happens to processes that load and run them.

Every trial ends in results, the same twice, or in one of treadle's errors: never in another exception, a crash or a
hang.
"""
