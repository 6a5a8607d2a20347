"""An old commit against a new one."""
