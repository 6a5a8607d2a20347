"""The core ops: what each means. One file a family; `table.OPS` lists them all."""
