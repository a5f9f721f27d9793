"""One module an engine, run by the Python of that engine's environment: only numpy is shared."""
