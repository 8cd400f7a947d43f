"""The rows of rows.py that XLA was fastest at before, in JAX: microseconds of a call, back to back, the least of several groups. Needs JAX with CUDA.

    xla.py [name ...]

Weights are arguments, as they are in a served model; `mlp_tf32_b32` multiplies float32 by TF32, JAX's default.
"""
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import jax
import jax.numpy as jnp

GROUPS, GROUP_SECONDS = 12, 0.02


def normal(seed, dtype, *shape):
    return jax.random.normal(jax.random.key(seed), shape, jnp.float32).astype(dtype)


def layer_norm(x, scale=None, shift=None):
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    y = (wide - mean) * jax.lax.rsqrt(((wide - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
    return (y if scale is None else y * scale + shift).astype(x.dtype)


def mlp(dtype):
    sizes = (1024, 4096, 4096, 1024)
    weights = [(normal(i, dtype, k, n) / k**0.5, normal(10 + i, dtype, n)) for i, (k, n) in enumerate(zip(sizes, sizes[1:]))]

    def run(x, weights):
        for i, (w, b) in enumerate(weights):
            x = x @ w + b
            x = jax.nn.relu(x) if i < 2 else x
        return x

    return run, (normal(3, dtype, 32, 1024), weights)


def block():
    f16 = jnp.float16
    weights = (normal(0, f16, 768, 3072) / 28, normal(1, f16, 3072), normal(2, f16, 3072, 768) / 55, normal(3, f16, 768), normal(4, f16, 768), normal(5, f16, 768))

    def run(x, w1, b1, w2, b2, scale, shift):
        return x + (jax.nn.gelu(layer_norm(x, scale, shift) @ w1 + b1, approximate=False) @ w2 + b2)

    return run, (normal(6, f16, 32, 128, 768), *weights)


ROWS = {
    "mlp_tf32_b32": lambda: mlp(jnp.float32),
    "mlp_f16_b32": lambda: mlp(jnp.float16),
    "relu_f32_64m": lambda: (lambda x: jax.nn.relu(x) + jax.nn.relu(x) * 2, (normal(0, jnp.float32, 64 << 20),)),
    "softmax_norm_f16_16384": lambda: (lambda x: layer_norm(jax.nn.softmax(x.astype(jnp.float32) / 8, -1).astype(x.dtype) + x), (normal(0, jnp.float16, 16384, 4096),)),
    "block_f16_4096": block,
}


def main():
    for name in sys.argv[1:] or ROWS:
        function, args = ROWS[name]()
        begin = time.perf_counter()
        run = jax.jit(function)
        jax.block_until_ready(run(*args))
        compiled = time.perf_counter() - begin
        times, repeats = [], 20
        for _ in range(GROUPS + 1):  # the first one finds how many calls a group has
            begin = time.perf_counter()
            for _ in range(repeats):
                y = run(*args)
            jax.block_until_ready(y)
            times.append((time.perf_counter() - begin) / repeats)
            repeats = max(20, int(GROUP_SECONDS / times[-1]))
        print(f"{name} {{\"xla\": {min(times[1:]) * 1e6:.1f}, \"compile s\": {compiled:.1f}}}", flush=True)


if __name__ == "__main__":
    main()
