"""How TensorFlow ops become core nodes: one function an op, whose signature is what users call."""
