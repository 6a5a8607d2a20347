"""Tensor functions, one file per family; `treadle.compat.torch.table` lists them."""
