# Works from any directory: make -C <here> test, or make -f <here>/Makefile test.
root := $(dir $(realpath $(lastword $(MAKEFILE_LIST))))
cargo := cd '$(root)' && cargo

.PHONY: test chaos setup fixtures

# Everything that must hold before a change lands.
test: setup
	$(cargo) fmt --all --check
	$(cargo) clippy --workspace --all-targets --release --locked -- -D warnings
	$(cargo) test --workspace --release --locked

# A run killed 200 times, at random instants, against one that was not.
chaos: setup
	cd '$(root)' && ECRL_KILLS=200 cargo test --release --locked -p cli --test commands -- --nocapture a_run_killed

setup:
	@command -v cargo >/dev/null || { echo "error: cargo is missing: install Rust 1.95 or newer" >&2; exit 1; }
	@'$(root)tools/fetch-mujoco'

# Makes the fixtures of the parity tests anew, from the real Gymnasium and PyTorch.
fixtures:
	cd '$(root)' && python3 -m venv target/python
	cd '$(root)' && target/python/bin/pip install --quiet 'gymnasium[mujoco]==1.4.0' mujoco==3.17.0 numpy==2.4.6 torch==2.15.0
	cd '$(root)' && target/python/bin/python tools/gymnasium_fixtures.py
	cd '$(root)' && target/python/bin/python tools/pytorch_fixtures.py
