"""The live benchmark: the same load for this system, in all its modes, and for what people would use instead."""
