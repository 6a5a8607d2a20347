"""Checkpoints: files of tensors that `torch.save` wrote, read without running code, and written for PyTorch to read."""
