"""treadle as a backend of torch.compile, beside PyTorch's engines."""
