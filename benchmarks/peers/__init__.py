"""Other engines beside edgeformer: same machine, same model, same prompts, same threads.

`python -m benchmarks.peers install` gives each engine an environment of its own; `run` times them
in fresh processes that take turns. Host only, from the repository's root.
"""
