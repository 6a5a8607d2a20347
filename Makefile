# Everything a fresh clone needs: python3 (>= 3.11, with venv and pip), make and g++ (with C++20; tested with 12).
PYTHON ?= python3
# More for pip, e.g. -Ccmake.define.TREADLE_WERROR=ON
INSTALL_OPTIONS ?=
# More for pytest where it runs the whole suite.
SUITE_OPTIONS ?=
BIN := .venv/bin
STAMP := .venv/.installed
DOCS := build/docs
NATIVE := $(wildcard native/*/*.cpp native/*/*.h native/*/*/*.h)

.PHONY: always run test test-together test-alone test-packages native-test bench lint docs clean

run: $(STAMP)
	$(BIN)/python examples/digits/classify.py

# What `make test` runs beside the suite, which leaves CPUs idle where it waits.
BESIDE ?= $(MAKE) native-test

test: $(STAMP)
	scripts/side_by_side "$(MAKE) test-together" "$(BESIDE)"
	$(MAKE) test-alone

test-together: $(STAMP)
	$(BIN)/python -m pytest -q -m "not alone" -n auto --maxprocesses 4 --dist worksteal $(SUITE_OPTIONS)

# What watches how threads are scheduled: nothing runs beside it.
test-alone: $(STAMP)
	$(BIN)/python -m pytest -q -m alone $(SUITE_OPTIONS)

# Packages that use onnxruntime, in an environment of their own.
test-packages:
	scripts/test_packages

native-test: $(STAMP)
	scripts/native_test plain "" treadle_native_bench
	scripts/stress --graphs 1000 --cycles 0

bench: $(STAMP)
	scripts/bench

lint: $(STAMP)
	scripts/check

# The site in build/site; fails on a broken link.
docs: $(DOCS)/.installed
	$(DOCS)/bin/mkdocs build --strict

# Needs neither a compiler nor treadle itself: the generator reads the sources. An environment of its own, which can be
# made while tests use the other one.
$(DOCS)/.installed: pyproject.toml
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'], sep='\n')" > $(DOCS)/docs.txt
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement $(DOCS)/docs.txt
	touch $@

# Rebuilt when what is compiled or installed changes. Python files are used from src: the installation maps each module
# to its file, so it is made again when files come, go or move.
$(STAMP): pyproject.toml CMakeLists.txt $(NATIVE) .venv/.modules
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check scikit-build-core nanobind cmake ninja 'tbb-devel; sys_platform == "linux" and platform_machine == "x86_64"'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --editable '.[test,dev]' $(INSTALL_OPTIONS)
	touch $(STAMP)

.venv/.modules: always
	@mkdir -p .venv
	@find src -name '*.py' | LC_ALL=C sort | cmp -s - $@ || find src -name '*.py' | LC_ALL=C sort > $@

clean:
	rm -rf .venv build
