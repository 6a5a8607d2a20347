"""The IR: what to compute. Imports only errors and dtypes."""
