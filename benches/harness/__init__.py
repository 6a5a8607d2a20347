"""What all benchmarks share: processes that take turns, timings, checks of outputs, tables and JSON files."""
