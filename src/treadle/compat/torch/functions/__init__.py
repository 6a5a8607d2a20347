"""Tensor functions, one file a family; `treadle.compat.torch.table` lists them all."""
