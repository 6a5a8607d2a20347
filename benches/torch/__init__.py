"""treadle as a backend of torch.compile, beside PyTorch's own ways to run a module."""
