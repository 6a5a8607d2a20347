"""Executable and inputs to outputs: sessions, threads, and the binding to the native core."""
