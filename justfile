# One-line recipes; anything longer is Rust in `xtask`.

# Format, lints, documentation, structure, generated pages.
check:
    cargo xtask check

# Every test.
test:
    cargo xtask test

# A thousand kills; a failure prints the seed that repeats it.
nightly:
    SKILLOPT_KILLS=1000 cargo test --package skillopt-tests --test kill -- --nocapture

# Golden vectors, e.g. `just parity training/gate`.
parity *ARGS:
    cargo xtask parity {{ARGS}}

# Write the generated pages anew.
generate:
    cargo xtask generate

# Train a skill with the simulated model.
demo:
    cargo run --release -- demo
