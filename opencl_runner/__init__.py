"""Runs compiled blocks on an OpenCL device; needs numpy, msgspec and pyopencl, knows no compiler and no server."""
