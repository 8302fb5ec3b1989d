"""What blocks, boundaries and modes cost on a device, a CUDA GPU above all; without Ray and HTTP."""
