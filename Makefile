# The verbs one needs: run, demo, test, check, bench, clean. Each does its own set-up (Python 3.11, make and pip only).
PYTHON ?= python3.11
VENV ?= .venv
VENV_TRITON ?= .venv-triton
VENV_PEERS ?= .venv-peers
VENV_OPENVINO ?= .venv-openvino
VENV_FRAMEWORKS ?= .venv-frameworks
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_TVM := $(VENV)/.installed-tvm
TRITON_INSTALLED := $(VENV_TRITON)/.installed
OPENVINO_INSTALLED := $(VENV_OPENVINO)/.installed
FRAMEWORKS_INSTALLED := $(VENV_FRAMEWORKS)/.installed
PEERS_INSTALLED := $(VENV_PEERS)/.installed
MODE ?=
BENCH ?=
DEMO_MODES := $(foreach mode,$(MODE),--mode $(mode))

.PHONY: run demo test test-offline test-online test-tvm test-openvino test-frameworks check bench clean models install \
	install-dev install-tvm peers

run: models ## serve config.yaml on http://127.0.0.1:8000
	$(BIN)/python -m serve_app run config.yaml

demo: models ## one minute of mixed load per mode: make demo, or make demo MODE=fifo
	mkdir -p out
	$(BIN)/python -m benchmarks.demo --config config.yaml $(DEMO_MODES) --json out/demo.json --plot out/demo.png

models: $(INSTALLED) ## split the example models for one device; nothing to do where their plans are up to date
	$(BIN)/python -m split_tool zoo --out models --together

test: $(INSTALLED_DEV) $(TRITON_INSTALLED) ## all tests: those without a Ray cluster beside those that mostly wait for one
	$(MAKE) --no-print-directory --jobs=2 test-offline test-online

test-offline: $(INSTALLED_DEV)
	$(BIN)/python -m pytest -p no:cacheprovider tests/unit tests/integration --ignore=tests/integration/serving

test-online: $(INSTALLED_DEV) $(TRITON_INSTALLED)
	$(BIN)/python -m pytest tests/integration/serving tests/e2e

test-openvino: $(OPENVINO_INSTALLED) ## blocks on a second ONNX Runtime provider, which any x86-64 Linux machine can run
	$(VENV_OPENVINO)/bin/python -m pytest tests/integration/backends

test-tvm: $(INSTALLED_TVM) ## tests of the compiler for OpenCL and of what it makes, on PoCL: 100 MB to install
	$(BIN)/python -m pytest -p no:cacheprovider tests/opencl

test-frameworks: $(FRAMEWORKS_INSTALLED) ## models of Keras, TFLite and PyTorch, split and compiled: an environment of 3 GB or more
	$(VENV_FRAMEWORKS)/bin/python -m pytest -p no:cacheprovider tests/frameworks

check: $(INSTALLED_DEV) ## format, lint, types, who may import whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: models $(PEERS_INSTALLED) ## every benchmark that needs no GPU; options of the live one: make bench BENCH='--load 1.1'
	$(BIN)/python -m benchmarks.allocator_core
	$(BIN)/python -m benchmarks.lease
	$(BIN)/python -m benchmarks.split_growth
	$(BIN)/python -m benchmarks.split_overhead
	$(BIN)/python -m benchmarks.ingress
	$(BIN)/python -m benchmarks.json_boundary
	$(BIN)/python -m benchmarks.layouts
	$(BIN)/python -m benchmarks.layouts --pipeline
	$(BIN)/python -m benchmarks.routes
	$(BIN)/python -m benchmarks.serve --config config.yaml --peer-python $(VENV_PEERS)/bin/python $(BENCH)

clean: ## remove environments, caches and split models
	rm -rf $(VENV) $(VENV_TRITON) $(VENV_PEERS) $(VENV_OPENVINO) $(VENV_FRAMEWORKS) models out build *.egg-info \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

install: $(INSTALLED)
install-dev: $(INSTALLED_DEV)
install-tvm: $(INSTALLED_TVM)
peers: $(PEERS_INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

$(INSTALLED_TVM): $(INSTALLED_DEV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,tvm,pocl]'
	touch $@

# tritonclient pins a protobuf that Ray cannot use: it gets an environment of its own
$(TRITON_INSTALLED): tests/e2e/requirements.txt
	$(PYTHON) -m venv $(VENV_TRITON)
	$(VENV_TRITON)/bin/python -m pip install --quiet --requirement tests/e2e/requirements.txt
	touch $@

# one package of ONNX Runtime excludes the other
$(OPENVINO_INSTALLED): constraints.txt
	$(PYTHON) -m venv $(VENV_OPENVINO)
	$(VENV_OPENVINO)/bin/python -m pip install --quiet --constraint constraints.txt onnxruntime-openvino onnx numpy \
		ml_dtypes msgspec pydantic pytest pytest-asyncio pytest-timeout
	touch $@

# with PyTorch's own index of builds for processors in PIP_EXTRA_INDEX_URL, it comes without 2 GB of CUDA
$(FRAMEWORKS_INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV_FRAMEWORKS)
	$(VENV_FRAMEWORKS)/bin/python -m pip install --quiet --constraint constraints.txt \
		--editable '.[dev,tvm,pocl,tensorflow,pytorch]'
	touch $@

# other servers that the live benchmark compares with, not ours to depend on
$(PEERS_INSTALLED): benchmarks/serve/peers/requirements.txt constraints.txt
	$(PYTHON) -m venv $(VENV_PEERS)
	$(VENV_PEERS)/bin/python -m pip install --quiet --constraint constraints.txt --requirement $<
	touch $@
