"""How each op becomes kernel calls: one file a family, listed in `table`."""
