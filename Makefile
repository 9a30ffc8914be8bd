# Works from any directory: make -C <here> test, or make -f <here>/Makefile test.
# By the shell: make's own functions break a path with spaces.
root := $(shell dirname "$$(readlink -f '$(lastword $(MAKEFILE_LIST))')")/
cargo := cd '$(root)' && cargo

.PHONY: test chaos fuzz browser onnx setup fixtures docs python examples peers slurm ray live

# Everything that must hold before a change lands.
test: setup
	$(cargo) fmt --all --check
	$(cargo) clippy --workspace --all-targets --release --locked -- -D warnings
	cd '$(root)' && RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --release --locked
	$(cargo) test --workspace --release --locked
	'$(root)tools/outside-test'
	$(MAKE) -f '$(root)Makefile' python

# Python's package: built as a wheel, installed into a fresh venv as a user without Rust would, and tested there
# against the real Gymnasium; its types and stubs.
venv := target/venv/bin
python: setup
	cd '$(root)' && python3 -m venv --clear target/venv
	@cd '$(root)' && $(venv)/pip install --quiet --disable-pip-version-check 'maturin>=1.9.4,<2' 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0 pytest mypy onnxruntime pandas || \
	  { echo "error: pip could not install what the Python tests need: check the network" >&2; exit 1; }
	cd '$(root)' && rm -rf target/wheels && $(venv)/maturin build --release --locked --quiet
	cd '$(root)' && $(venv)/pip install --quiet --disable-pip-version-check target/wheels/*.whl
	cd '$(root)' && $(venv)/python -m mypy.stubtest ecrl._ecrl --mypy-config-file pyproject.toml
	cd '$(root)' && $(venv)/mypy --strict python/ecrl examples/python/own_environment.py examples/python/robot.py examples/python/six_values.py
	cd '$(root)' && $(venv)/python -m pytest -q tests/python

# Every example, with the packages that some of them are about.
examples: python
	cd '$(root)' && $(venv)/pip install --quiet --disable-pip-version-check mlflow wandb optuna nbclient nbformat ipykernel matplotlib
	cd '$(root)' && $(venv)/python -m pytest -q tests/python/test_examples.py

# Ours against Stable-Baselines3, SBX, Tianshou and Gymnasium, alternating, and OmniSafe where there is a Python 3.10 for
# it; writes results/speed.md. Twenty to thirty-five minutes on two cores that do nothing else.
peers_pip := target/peers/bin/pip install --quiet --disable-pip-version-check
omnisafe_python = $(shell for python in python3.10 $(HOME)/.pyenv/versions/3.10.*/bin/python; do "$$python" -c '' 2>/dev/null && echo "$$python" && break; done)
peers: setup
	cd '$(root)' && python3 -m venv target/peers && $(peers_pip) 'maturin>=1.9.4,<2' stable-baselines3==2.9.2 sbx-rl==0.28.0 'tianshou[eval]==2.0.1' 'gymnasium[mujoco]==1.4.0'
	cd '$(root)' && rm -rf target/wheels && target/peers/bin/maturin build --release --locked --quiet
	cd '$(root)' && $(peers_pip) --force-reinstall --no-deps target/wheels/*.whl mujoco==3.17.0
	@cd '$(root)' && if [ -z '$(omnisafe_python)' ]; then echo "OmniSafe is left out: it needs Python 3.10, which is not here"; \
	  elif ! target/omnisafe/bin/python -c 'import omnisafe' 2>/dev/null; then '$(omnisafe_python)' -m venv --clear target/omnisafe && \
	    { target/omnisafe/bin/pip install --quiet --disable-pip-version-check omnisafe==0.5.0 'numpy<2' || \
	      { rm -rf target/omnisafe; echo "OmniSafe is left out: it does not install here"; }; }; fi
	cd '$(root)' && target/peers/bin/python tools/peers --out results/speed.md \
	  $$([ -x target/omnisafe/bin/python ] && echo --omnisafe "$$PWD/target/omnisafe/bin/python")

# A run killed 200 times, at random instants, against one that was not.
chaos: setup
	cd '$(root)' && ECRL_KILLS=200 cargo test --release --locked -p cli --test commands -- --nocapture a_run_killed

# What follows from the code: docs/metrics.md, and golden digests of algorithms that have none yet.
docs:
	cd '$(root)' && ECRL_BLESS=new cargo test --release --locked -p ecrl --lib --test golden -- metrics golden no_result

setup:
	@command -v cargo >/dev/null || { echo "error: cargo is missing: install Rust 1.95 or newer" >&2; exit 1; }
	@'$(root)tools/fetch-mujoco'

# Makes the fixtures of the parity tests anew, from the real Gymnasium and PyTorch.
fixtures:
	cd '$(root)' && python3 -m venv target/python
	cd '$(root)' && target/python/bin/pip install --quiet 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0 numpy==2.4.6 torch==2.15.0 rliable==1.2.0 'pandas<3'
	cd '$(root)' && target/python/bin/python tools/gymnasium_fixtures.py
	cd '$(root)' && target/python/bin/python tools/pytorch_fixtures.py
	cd '$(root)' && target/python/bin/python tools/rliable_fixtures.py

# Feeds everything that is read from disk or the command line with garbage, five minutes each.
fuzz: setup
	@cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
	cd '$(root)' && cargo fuzz build --sanitizer none
	cd '$(root)' && for target in config constraint replay policy checkpoint on_policy grid report own_task; do \
	  mkdir -p fuzz/corpus/$$target && \
	  cargo fuzz run --sanitizer none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
	    -max_total_time=$${SECONDS_EACH:-300} -max_len=16384 -print_final_stats=1 || exit 1; \
	done

# Opens the report and an episode of every robot in a real headless Chromium. Needs Debian's chromium and chromium-driver.
browser: setup
	@command -v chromedriver >/dev/null || { echo "error: chromedriver is missing: apt-get install chromium chromium-driver" >&2; exit 1; }
	cd '$(root)' && python3 -m venv target/browser && target/browser/bin/pip install --quiet selenium
	cd '$(root)' && rm -rf target/browser/runs && ./ecrl paper --seeds 1 --steps 7000 --out target/browser/runs \
	  --set learning_starts=900000 --set 'hidden=[16]' --set population=3 --set learner.episodes=1 --set epochs=2 \
	  --set retest_episodes=2
	cd '$(root)' && for task in ant half-cheetah walker2d hopper swimmer examples/robots/arm.toml examples/robots/balancer.toml; do \
	  name=$$(basename $$task .toml) && ./ecrl train $$task --algo ppo --steps 4096 --quiet --force --out target/browser/$$name && \
	  ./ecrl play target/browser/$$name --html target/browser/$$name.html || exit 1; done
	cd '$(root)' && target/browser/bin/python tools/browser_test.py target/browser/runs/report/index.html target/browser/runs/*.html target/browser/*.html

# Grids on a real Slurm with two nodes on this machine, against local ones; ten minutes, mostly waiting. PARTS="overhead
# scale" measures instead.
slurm: setup
	@command -v slurmctld slurmd sbatch munged >/dev/null || (apt-get update -qq && apt-get install -y -qq slurmctld slurmd slurm-client munge) || \
	  { echo "error: Slurm is missing: apt-get install slurmctld slurmd slurm-client munge" >&2; exit 1; }
	$(cargo) build --release --locked -p cli
	cd '$(root)' && python3 tools/slurm_test.py $(PARTS)

# The same on a real Ray with three nodes on this machine; PARTS=cost measures instead.
ray: setup
	cd '$(root)' && python3 -m venv target/ray && target/ray/bin/pip install --quiet --disable-pip-version-check 'maturin>=1.9.4,<2' 'ray[client]==2.60.0' 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0 cloudpickle
	cd '$(root)' && rm -rf target/wheels && target/ray/bin/maturin build --release --locked --quiet
	cd '$(root)' && target/ray/bin/pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/*.whl
	cd '$(root)' && target/ray/bin/python tools/ray_test.py $(PARTS)

# The live page in a real headless Chromium, and how fast it is. Needs Debian's chromium and chromium-driver.
live: setup
	@command -v chromedriver >/dev/null || { echo "error: chromedriver is missing: apt-get install chromium chromium-driver" >&2; exit 1; }
	cd '$(root)' && python3 -m venv target/browser && target/browser/bin/pip install --quiet selenium
	$(cargo) build --release --locked -p cli
	cd '$(root)' && target/browser/bin/python tools/live_test.py

# An exported policy, run by ONNX Runtime in the real Gymnasium, against ours.
onnx: setup
	cd '$(root)' && python3 -m venv target/onnx && target/onnx/bin/pip install --quiet onnxruntime 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0
	cd '$(root)' && ./ecrl train hopper --algo ppo --steps 30k --out target/onnx/ppo --force --quiet
	cd '$(root)' && ./ecrl train hopper --algo sac --steps 4000 --set learning_starts=1000 --out target/onnx/sac --force --quiet
	cd '$(root)' && target/onnx/bin/python tools/onnx_test.py target/onnx/ppo target/onnx/sac
