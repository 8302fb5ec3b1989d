"""The shell around the scheduling core: allocator actor, lease protocol, device thread, blocks, deployments."""
