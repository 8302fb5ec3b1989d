"""Offline compiler: the blocks of a split plan become OpenCL kernels by TVM. Needs ``pip install 'dlir-serve[tvm]'``.

``compiling`` is the entry; ``worker`` is the process that imports TVM, everything else does not.
"""
