"""The verbs of `python -m edgeformer`, one module each: `parser()` and `run(arguments)`."""
