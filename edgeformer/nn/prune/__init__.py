"""Host half: make a decoder smaller by whole neurons, KV groups and layers, then train it again.

`python -m edgeformer.nn.prune` is the command; `prune_decoder` does it in memory.
"""
