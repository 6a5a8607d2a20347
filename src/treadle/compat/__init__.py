"""Facades with the names that users of other systems know. Each translates; none computes."""
