"""The TensorFlow front end: what TensorFlow's ops mean in core nodes, for frozen graphs and for the facade alike."""
