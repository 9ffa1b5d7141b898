# Two commands: `make quickstart` and `make test`. Both set up their own virtual environment.

PYTHON ?= python3
VENV ?= .venv
# The PyTorch to install. Every version from the first to the last of TESTED_TORCH works; CI runs with this one.
TORCH ?= torch==2.13.0
# Oldest and newest: what `make test-versions` runs with, one environment each.
TESTED_TORCH := 2.11.0 2.15.0
VERSION_TESTS := tests/lowering/test_patches.py tests/cuda/test_cuda_patches.py tests/cuda/test_answers_of_targets.py \
	tests/cuda/test_cuda_lowering.py tests/cuda/test_cuda_programs.py tests/mps/test_mps_lowering.py tests/e2e/test_results.py \
	tests/e2e/test_index_errors.py tests/lowering/test_gathered_rows.py tests/lowering/test_kernel_sites.py \
	tests/lowering/test_alike.py tests/lowering/test_layers.py tests/lowering/test_questions_together.py tests/lowering/test_settled.py \
	tests/lowering/test_short_wrappers.py tests/lowering/test_loops.py tests/cuda/test_small_kernels.py tests/kinds/test_corners.py

# What `make fuzz` gives each target.
FUZZ_SECONDS ?= 60

EXECUTORCH := "executorch==1.5.*"
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
QUICK := $(VENV)/.installed-for-cpu
# The CUDA part needs nvcc and headers, no GPU: those of a toolkit, or PyPI's.
CUDA_TOOLKIT := $(shell command -v nvcc || ls "$$CUDA_HOME/bin/nvcc" /usr/local/cuda/bin/nvcc 2>/dev/null)
CUDA_PACKAGES := nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl
# What wheels are built with; nothing of it is in them.
WHEEL_TOOLS := $(VENV)/.installed-for-wheels
CHAT := build/chat
CPP_FILES := git ls-files 'native/*.h' 'native/*.cpp' 'examples/*.cpp'
NATIVE := $(shell find native -type f -not -path 'native/build/*')

.DEFAULT_GOAL := help
.PHONY: help quickstart chat test test-python test-native test-versions fuzz lint format docs benchmark wheels clean

help: ## Show the commands.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# Without the CUDA runtime, whose kernels take half of the build, and without what development needs.
quickstart: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(QUICK)) ## Lower four models, run them, compare with PyTorch.
	$(BIN)/python examples/quickstart.py

chat: $(CHAT)/chat.pte ## Train a small model, export it with 4-bit weights, ask it something.
	@printf 'Hello!\nWhat is 3 + 5?\n' | $(BIN)/aoti-plugins chat $< --statistics
	@echo "Talk to it: $(BIN)/aoti-plugins chat $<"

$(CHAT)/checkpoint/model.safetensors: examples/chat/train.py | $(INSTALLED)
	$(BIN)/python examples/chat/train.py $(CHAT)/checkpoint
	@touch $@

$(CHAT)/chat.pte: $(CHAT)/checkpoint/model.safetensors
	$(BIN)/aoti-plugins export $(CHAT)/checkpoint -o $@ --quantize int4 --group-size 32

test: lint test-native test-python ## The whole tests, as CI runs them.

test-python: $(INSTALLED) ## The Python tests: unit, lowering, runs on the CPU.
	$(BIN)/python -m pytest -n 2 --durations=25

test-native: $(INSTALLED) ## The C++ tests under the address and undefined-behaviour sanitizers.
	cd native && PATH="$(abspath $(BIN)):$$PATH" cmake --workflow --preset asan

test-versions: ## A part of the Python tests with the oldest and with the newest PyTorch, for all devices.
	for version in $(TESTED_TORCH); do \
		environment="$(VENV)-$$version"; \
		$(MAKE) "$$environment/.installed" TORCH="torch==$$version" VENV="$$environment" && \
		"$$environment/bin/python" -m pytest -n 2 $(VERSION_TESTS) || exit 1; \
	done

fuzz: $(INSTALLED) ## Damaged programs, data files and payloads, a minute of each under the sanitizers.
	cd native && PATH="$(abspath $(BIN)):$$PATH" cmake --preset asan && \
		PATH="$(abspath $(BIN)):$$PATH" cmake --build --preset asan && \
		PATH="$(abspath $(BIN)):$$PATH" AOTIP_FUZZ_SECONDS=$(FUZZ_SECONDS) ctest --preset asan -L fuzz

lint: $(INSTALLED) ## Style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/vermin --target=3.10- --no-tips --violations --quiet aoti_plugins
	files=$$($(CPP_FILES)) && test -n "$$files" && $(BIN)/clang-format --dry-run --Werror $$files

format: $(INSTALLED) ## Rewrite the sources in the house style.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	files=$$($(CPP_FILES)) && test -n "$$files" && $(BIN)/clang-format -i $$files

docs: $(INSTALLED) ## The documentation as a site, in build/site; a warning is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo "Look at it: $(BIN)/python -m mkdocs serve"

benchmark: $(INSTALLED) ## Per-call and load times against AOTInductor with libtorch.
	$(BIN)/python benchmarks/cpu_overhead.py

# On Debian: the C++ library's headers come from its packages (tools/debian_root.sh).
wheels: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(WHEEL_TOOLS)) ## Wheels for Linux (x86-64, aarch64) and macOS, in dist.
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python native/tools/build_wheels.py dist

clean: ## Remove the environment and everything built.
	rm -rf $(VENV) build dist native/build

# torch comes by version, so that nothing else chooses one. The CPU build is enough; where pip is configured to find only
# the one with CUDA libraries, that takes some gigabytes: set PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS.
# Our native part is built while pip unpacks PyTorch, of which it needs nothing: executorch's headers and library are there
# before. The last command finds ours installed, and installs what it requires.
# $(1): what the build needs beside; $(2): its settings; $(3): extras.
define install
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet "scikit-build-core>=0.11" "cmeel-eigen>=3.4" "cmake>=3.28" "ninja>=1.11" $(1)
	$(BIN)/python -m pip install --quiet --no-deps $(EXECUTORCH)
	$(BIN)/python -m pip install --quiet "$(TORCH)" $(EXECUTORCH) & packages=$$!; trap "kill $$packages; exit 1" HUP INT TERM; \
		PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable . \
		$(addprefix --config-settings=cmake.define.,$(2)); built=$$?; \
		wait $$packages && exit $$built
	$(BIN)/python -m pip install --quiet "aoti-plugins$(3)"
endef

$(QUICK): pyproject.toml $(NATIVE)
	$(call install,,AOTIP_CUDA=OFF,)
	touch $@

# optimum-executorch pins an old transformers, and works with ours.
$(INSTALLED): pyproject.toml $(NATIVE)
	$(call install,$(if $(CUDA_TOOLKIT),,$(CUDA_PACKAGES)),AOTIP_CUDA=AUTO AOTIP_OPERATOR_TESTS=ON,[dev])
	$(BIN)/python -m pip install --quiet --no-deps "optimum-executorch==1.1.*" "optimum==2.0.*"
	touch $@

$(WHEEL_TOOLS): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet "scikit-build-core>=1" "ziglang>=0.17,<0.18" "cmake>=3.28" "ninja>=1.11" \
		"cmeel-eigen>=3.4" "pyelftools>=0.31" "zopflipy>=1.10" $(if $(CUDA_TOOLKIT),,$(CUDA_PACKAGES))
	touch $@
