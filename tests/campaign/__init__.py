"""A campaign of mutated models, each loaded and run twice under limits of memory and time.

Every one ends in results, the same twice, or in one of treadle's errors: never in another exception, a crash or a hang.
"""
