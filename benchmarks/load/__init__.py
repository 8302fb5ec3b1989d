"""Open-loop load over HTTP for any server of the Open Inference Protocol v2, and what it shows."""
