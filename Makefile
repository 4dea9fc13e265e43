# Two commands are enough on a fresh machine:  make run  and  make test
# Another interpreter:  make run PYTHON=python3.13      More arguments for mats:  make run ARGS="--timeout 60"
# Only some tests:      make test TESTS=tests/project

PYTHON = python3
VENV = .venv
TEST_VENV = build/test-venv
WHEELS = build/dist
ARGS =
TESTS = tests
PYTEST_ARGS =
PIP_INSTALL = -m pip install --quiet --disable-pip-version-check

.PHONY: help run install test gpu-check bench clean check-python check-compiler cuda-extra

help:
	@echo 'make run        install into $(VENV) and run every check that applies to this machine (mats all)'
	@echo 'make test       install into a fresh environment, then lint, types and every test'
	@echo 'make gpu-check  compile, run and time every kernel, delay and link of this machine'\''s GPU (under 4 minutes)'
	@echo 'make bench      compare the host memory test with the tools people use today'
	@echo 'make clean      remove everything these commands made, except the results in mats-runs/'

run: install
	$(VENV)/bin/mats all $(ARGS)

# Reinstalls only when the packaging or the native sources changed: the installation is editable, so that
# a change of a Python file, template or kernel is in force at once.
install: check-python
	@if [ -x $(VENV)/bin/mats ] && [ -f $(VENV)/installed ] && \
	  [ -z "$$(find pyproject.toml setup.py kernels mats/sources/mock_nvml -newer $(VENV)/installed -type f ! -name '*.pyc')" ]; then exit 0; fi; \
	command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || \
	  echo 'mats: no C++ compiler: GPUs can be tested, the memory of this machine (host) and the simulator (sim) cannot. On Debian or Ubuntu: apt-get install g++ python3-dev' >&2; \
	extra=$$($(MAKE) -s cuda-extra) || exit 1; \
	echo "mats: installing into $(VENV)$${extra:+ with $$extra}"; \
	$(PYTHON) -m venv $(VENV) && \
	$(VENV)/bin/python $(PIP_INSTALL) --editable ".$${extra:+[$$extra]}" && \
	touch $(VENV)/installed || \
	{ echo 'mats: the installation failed; the reason stands above. It needs a package index that pip can reach.' >&2; exit 1; }

# The tests run on the wheel, not on the checkout: from build/, so that no process finds mats/ in its current folder.
test: check-python check-compiler
	@echo '== a fresh environment in $(TEST_VENV)'
	@rm -rf $(TEST_VENV) $(WHEELS)
	@$(PYTHON) -m venv $(TEST_VENV)
	@$(TEST_VENV)/bin/python $(PIP_INSTALL) --constraint constraints.txt 'setuptools>=77' wheel build
	@echo '== wheel from sdist, installed as a user gets it'
	@$(TEST_VENV)/bin/pyproject-build --no-isolation --outdir $(WHEELS) . > $(WHEELS).log 2>&1 || { cat $(WHEELS).log; exit 1; }
	@$(TEST_VENV)/bin/python $(PIP_INSTALL) --constraint constraints.txt "$$(ls $(WHEELS)/*.whl)[test]"
	@echo '== lint, format, types'
	@$(TEST_VENV)/bin/ruff check .
	@$(TEST_VENV)/bin/ruff format --check .
	@$(TEST_VENV)/bin/mypy
	@echo '== tests (kernels with nvcc and NVRTC, sanitizers, packaging among them)'
	@root=$$PWD; cd build && \
	  "$$root/$(TEST_VENV)/bin/pytest" -c ../pyproject.toml --rootdir .. -n 2 --dist worksteal $(PYTEST_ARGS) "../$(TESTS)"

gpu-check: install
	@$(VENV)/bin/python benchmarks/gpu_check.py $(ARGS) || { code=$$?; \
	  [ $$code -eq 3 ] && echo 'mats: gpu-check was skipped: nothing was checked' >&2 && exit 0; exit $$code; }

bench: install
	$(VENV)/bin/python benchmarks/host_peers.py $(ARGS)

clean:
	rm -rf $(VENV) build dist gpu_mats.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f mats/devices/*.so mats/sources/*.so

check-python:
	@command -v $(PYTHON) >/dev/null 2>&1 || \
	  { echo 'mats: $(PYTHON) was not found. On Debian or Ubuntu: apt-get install python3 python3-venv' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mats: Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -c 'import platform; print(platform.python_version())'). Name another with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "mats: $(PYTHON) cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }

check-compiler:
	@command -v g++ >/dev/null 2>&1 || command -v c++ >/dev/null 2>&1 || \
	  { echo 'mats: the tests need a C++ compiler. On Debian or Ubuntu: apt-get install g++ python3-dev' >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || \
	  { echo 'mats: the tests need the headers of Python. On Debian or Ubuntu: apt-get install python3-dev' >&2; exit 1; }

# Prints the extra that fits the driver: cuda13, cuda12 or nothing. CUDA 13 dropped the GPUs before compute
# capability 7.5, so that one of them on the machine asks for cuda12 under any driver.
cuda-extra:
	@command -v nvidia-smi >/dev/null 2>&1 || exit 0; \
	banner=$$(nvidia-smi 2>&1) || { \
	  echo 'mats: nvidia-smi is installed but does not answer; installing without CUDA. It says:' >&2; \
	  printf '%s\n' "$$banner" | head -n 3 >&2; exit 0; }; \
	major=$$(printf '%s\n' "$$banner" | sed -n 's/.*CUDA [A-Za-z ]*Version: *\([0-9][0-9]*\)\..*/\1/p' | head -n 1); \
	oldest=$$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | awk -F. '/^[0-9]+\.[0-9]+/ {c = $$1 * 10 + $$2; if (!n++ || c < m) m = c} END {print n ? m : 999}'); \
	if [ "$${major:-0}" -ge 13 ] && [ "$$oldest" -ge 75 ]; then echo cuda13; \
	elif [ "$${major:-0}" -ge 12 ]; then echo cuda12; \
	else echo "mats: the NVIDIA driver offers CUDA $${major:-of an unknown version}; 12 or newer is needed. Installing without CUDA." >&2; fi
