"""Where a step goes: the time of every node of ONNX Runtime's graph, by operator and by layer."""
