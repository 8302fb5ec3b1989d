"""Offline splitter: an ONNX model in, a split plan and its block files out. Knows nothing of Ray."""
