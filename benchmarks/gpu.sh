#!/usr/bin/env bash
# One short run (under 8 minutes) on a CUDA machine: benchmarks/gpu.sh, or benchmarks/gpu.sh --device cpu anywhere.
# Needs Python 3.11 and a few packages, no Ray; says what is missing. PYTHON=... takes another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
default=python3
[ -x .venv/bin/python ] && default=.venv/bin/python
python=${PYTHON:-$default}
missing=$("$python" -c '
import importlib.util as u
packages = {"ml_dtypes": "ml_dtypes", "msgspec": "msgspec", "numpy": "numpy", "onnx": "onnx",
            "onnxruntime": "onnxruntime-gpu", "rich": "rich"}
print(*(package for module, package in packages.items() if u.find_spec(module) is None))')
if [ -n "$missing" ]; then
    echo "missing: $missing; install them: $python -m pip install $missing" >&2
    exit 1
fi
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv,noheader || true
else
    echo "no nvidia-smi here"
fi
exec "$python" -m benchmarks.gpu "$@"
