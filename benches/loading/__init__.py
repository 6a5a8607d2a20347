"""First and later loads of models with open dimensions."""
