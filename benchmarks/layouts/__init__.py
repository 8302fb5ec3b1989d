"""The chained layout beside the fused one: what a hop costs, and what a pipeline over two devices brings."""
