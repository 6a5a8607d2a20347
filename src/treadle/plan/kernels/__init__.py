"""One module a kernel family: its parameters, its arguments, and the constants that lowering and generator share."""
