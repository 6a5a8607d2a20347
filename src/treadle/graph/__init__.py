"""The intermediate representation: graphs of nodes and values. Imports only errors and dtypes."""
