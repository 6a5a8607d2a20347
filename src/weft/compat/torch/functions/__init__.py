"""Tensor functions, one file a family; `weft.compat.torch.table` lists them all."""
