"""First and later loads of models with open dimensions, and of graphs of many ops."""
