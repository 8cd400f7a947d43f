"""Runs the cases of make_cases.py --keep without a GPU: their generated CUDA code, compiled as host C++ over tests/cuda/emulator.h. Makes them
first with --make. Exits with 77 (skipped) where that needs NVRTC and it is not installed.

    emulate.py --cases DIR --driver DIR_OF_LIBCUDA [--make AOTC] [--few | --hopper] [--thirds] [--cxx g++] [--jobs N] [name ...]
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KERNELS = os.path.join(ROOT, "compiler", "kernels", "cuda")
sys.path.insert(0, os.path.join(ROOT, "tests"))
import thirds
DYNAMIC = re.compile(r"extern __shared__ __align__\(\d+\) char shared\[\];")
# An instruction of Hopper's tensor cores, as emit/cuda/wgmma.cpp writes it.
WGMMA = re.compile(r'asm volatile\("{\.reg[^"]*"\s*" wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.f32\.(\w+)\.\w+ {[^}]*}, '
                   r'(?:{[^}]*}|%\d+), %\d+, p, 1, 1((?:, \d)*);}"(.*?)\);\n', re.S)
TYPES = {"f16": "f16", "bf16": "bf16", "tf32": "float", "e4m3": "e4m3fn", "e5m2": "e5m2"}
KERNEL = re.compile(r"__global__ void AOTC_CLUSTER\((\d+)\) __launch_bounds__\([^)]*\) (\w+)\(const|AOTC_KERNEL\(\d+, \d+, (\w+)\)")
# Functions that a kernel is made of.
PARTS = re.compile(r"#define AOTC_KERNEL AOTC_PART\n.*?#define AOTC_KERNEL AOTC_GLOBAL\n", re.S)


# One of each kernel kind and way to compute it.
FEW = ["rows_wide", "matmul_bf16", "product_f64_linear", "product_i8", "runs_many_f32", "runs_rows_f64", "product_f64_computed", "product_vector_f16",
       "product_vector_one_f32", "product_streamed_f16", "product_gated_f16", "product_gated_three_f32", "product_rotated_1_64_f16", "product_rotated_3_34_f32", "product_cached_3_f16", "product_cached_-1_f32",
       "rows_wide_f16", "short_row_whole_20", "short_row_whole_6", "pools_last_f16", "pools_last_dynamic_f32", "conv_plain_f32", "conv_deep_bf16", "conv_groups_f64", "conv_patch_volume_bf16", "conv_patch_groups_f16", "conv_patch_line_f16", "conv_patch_infinite_f16", "conv_patch_odd_f32", "conv_patch_odd_tf32", "conv_patch_infinite_f32",
       "conv_transposed_f32", "conv_transposed_phases_f32", "conv_transposed_phases_volume_f32", "conv_dynamic_f32", "attention_bool_f32", "attention_causal_tf32", "attention_causal_bf16", "attention_decode_f16", "attention_wider_f16", "attention_shown_cache_small_bf16", "attention_shown_holes_small_f32", "attention_kv_decode_int8_bf16", "attention_sinks_plain_bf16", "attention_sinks_decode_f16", "attention_sinks_edges_f32", "attention_sinks_edges_f64",
       "attention_kv_decode_rows_fp8_f16", "attention_kv_odd_int8_f32", "attention_kv_prompt_fp8_bf16", "attention_kv_prompt_int8_f16", "attention_kv_wider_int8_f16", "attention_kv_sinks_int8_f16", "sort_nan", "sort_experts",
       "sort_dynamic", "topk_f16", "topk_indices", "topk_short", "scatter_f32", "scatter_repeated", "index_put", "index_put_middle", "cache_update", "cache_pairs", "index_put_neighbours", "index_put_many", "lines_of_parts", "lines_of_parts_dynamic",
       "recurrence_lstm_projected", "recurrence_gru", "recurrence_lstm_batch_first", "scan_indices", "scan_across", "scan_pieces", "scan_pieces_dynamic", "triangle_rows_f32", "triangle_rows_f64", "product_few_terms", "product_odd_f32", "conv_odd_f32", "product_none_dynamic", "attention_far_huge_f32", "attention_overflow_f32", "attention_far_odd_bf16", "attention_no_channels_f32", "gather_twice_f16",
       "casts_float8", "product_scaled_rows", "product_scaled_odd", "product_scaled_f32", "product_scaled_mixed", "scan_dynamic", "row_unbounded", "cholesky_small", "cholesky_dynamic",
       "updates_line", "updates_rows", "bags_kinds", "bags_half", "bags_odd", "topk_shared", "topk_equals", "scan_longer", "scan_parts", "rows_together_f32", "rows_together_bf16", "rows_together_f16", "rows_together_f64", "rows_together_scan", "rows_together_dynamic", "rows_together_odd", "sort_packed", "sort_packed_long", "sort_radix", "sort_radix_dynamic", "sort_dealt_dynamic", "places_in_parts_half", "scan_parts_dynamic", "rows_over_largest", "rows_held_odd", "scatter_last", "rows_times_themselves", "lu_small", "lu_wide", "lu_dynamic", "qr_small", "qr_large", "qr_dynamic", "svd_small", "svd_large", "svd_dynamic",
       "layer_lstm_45", "layer_lstm_256_bf16", "layer_lstm_70_f64", "layer_lstm_projected", "layer_gru_160_f16", "layer_tanh_128", "layer_relu_31", "fourier_pairs_along", "fourier_pairs_f64", "fourier_half_1000", "fourier_half_odd", "fourier_line_cut", "fourier_line_odd", "found_rows", "found_distinct", "found_check", "joined_chosen", "joined_dynamic", "joined_filter_f16", "joined_filter_f32"]


# Those whose kernels use Hopper's own instructions, built for it.
HOPPER = ["wide_heads", "product_gated_rows_488_bf16", "product_gated_rows_301_f16", "product_gated_rows_dynamic_bf16", "runs_few_bf16", "runs_many_bf16", "runs_across_f16", "wide_segments", "attention_plain_f16", "attention_causal_long_bf16", "attention_float_f16", "attention_keys_bool_f16", "attention_keys_float_bf16", "attention_shown_window_small_f16", "attention_sinks_window_f16", "attention_sinks_float_bf16", "attention_sinks_plain_f16", "attention_kv_long_int8_bf16", "attention_kv_long_int8_f16", "attention_kv_long_sinks_fp8_f16", "attention_kv_long_odd_fp8_bf16",
          "attention_channels_f16", "attention_together_bf16", "attention_gqa_bf16", "attention_dynamic_f16", "attention_far_huge_bf16", "attention_many_f16",
          "conv_windows_plain_bf16", "conv_windows_steps_f16", "conv_windows_points_f16", "conv_windows_line_f16", "conv_windows_volume_f16",
          "conv_windows_odd_channels_f16", "conv_windows_dynamic_f16", "conv_windows_chain", "conv_windows_deep_f32", "conv_windows_deep_steps_f32", "conv_windows_deep_tf32", "conv_windows_odd_f32", "product_parts_odd_f32", "product_chain_f32", "product_whole_f32", "product_apart_along_f32", "product_apart_across_f32", "product_apart_odd_f32", "product_apart_left_f32", "product_apart_left_odd_f32", "product_parts_left_f32", "conv_narrow_bf16", "product_vector_bf16", "product_streamed_bf16", "product_streamed_five_bf16", "product_finished_f16", "product_shared_bf16", "product_columns_bf16", "product_turned_bf16", "product_turned_dynamic_f16", "product_scaled_tensor", "product_scaled_rows", "product_scaled_deep", "product_scaled_e5m2", "conv_few_f16",
          "conv_few_odd_f16", "conv_few_infinite_bf16", "conv_few_dynamic_bf16", "rows_short_f16", "rows_short_kept_f32", "rows_short_dynamic_f32", "few_channels_last_f16", "few_channels_last_dynamic_f32",
          "conv_spread_f16", "conv_transposed_phases_f16", "conv_transposed_phases_line_bf16", "product_unaligned_f16", "norms_last_f16"]


def emulated(text):
    """Shared memory is a block's own, not the translation unit's."""
    text = DYNAMIC.sub("char* const shared = emulator::now->block->shared;", text)
    return WGMMA.sub(products, text.replace('#include "ptx.cuh"', ""))


def products(m):
    columns, kind, across, operands = m.groups()
    across = [a.strip() for a in across.split(",") if a.strip()] or ["0", "0"]
    registers = "(p0)" in operands
    left = "p0, p1, p2, p3" if registers else "left"
    flags = across[-1] if registers else ", ".join(across)
    return f"emulator::products_of_{'registers' if registers else 'memory'}<{TYPES[kind]}, {columns}>(d, {left}, right, add, {flags});\n"


def compile_host(source, folder, library, cxx):
    os.makedirs(folder, exist_ok=True)
    for header in glob.glob(os.path.join(KERNELS, "*.cuh")):
        with open(header) as f, open(os.path.join(folder, os.path.basename(header)), "w") as out:
            out.write(emulated(f.read()))
    text = open(source).read()
    exports = "".join(f"AOTC_EMULATED_KERNEL({together or name}, {cluster or 1})\n" for cluster, together, name in KERNEL.findall(PARTS.sub("", text)))
    path = os.path.join(folder, "emulated.cpp")
    with open(path, "w") as out:
        out.write('#include "cuda/emulator.h"\n' + emulated(text) + exports)
    # In that folder, with the paths of headers relative to the tree: what ccache has of another clone is found again.
    ccache = [shutil.which("ccache")] if shutil.which("ccache") else []
    env = dict(os.environ, CCACHE_BASEDIR=ROOT, CCACHE_NOHASHDIR="1", CCACHE_SLOPPINESS="file_macro")
    subprocess.run([*ccache, cxx, "-std=c++20", "-O1", "-march=x86-64-v3", "-w", "-Wno-psabi", "-fwrapv", "-fPIC", "-I", ".", "-I", os.path.join(ROOT, "tests"),
                    "-c", "emulated.cpp", "-o", "emulated.o"], check=True, cwd=folder, env=env)
    subprocess.run([cxx, "-shared", os.path.join(folder, "emulated.o"), "-o", library], check=True)


def run(o, name):
    path = os.path.join(o.cases, name)
    library = path + ".host.so"
    try:
        compile_host(os.path.join(path + ".keep", "kernels.cu"), path + ".host", library, o.cxx)
    except (OSError, subprocess.CalledProcessError) as e:
        return False, f"FAIL {name}: {e}"
    env = dict(os.environ, LD_LIBRARY_PATH=o.driver, AOTC_EMULATED_KERNELS=library)
    r = subprocess.run([sys.executable, os.path.join(HERE, "run_cases.py"), o.cases, name, "--once", "--graphs"], capture_output=True, text=True, env=env)
    return r.returncode == 0, (r.stdout.rsplit("\n", 2)[0] + r.stderr[-600:]).strip() or f"FAIL {name}: exit {r.returncode}"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cases", required=True)
    p.add_argument("--driver", required=True)
    p.add_argument("--cxx", default="c++")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--make", metavar="AOTC")
    p.add_argument("--few", action="store_true", help="one case of each kind of kernel")
    p.add_argument("--hopper", action="store_true", help="those with Hopper's own instructions")
    p.add_argument("--thirds", action="store_true", help="of these the ninth that the commit takes (tests/thirds.py)")
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    o.names = o.names or (HOPPER if o.hopper else FEW if o.few else [])
    if o.thirds:
        o.names = thirds.some(o.names, "emulated GPU cases", 9)
    if o.make:
        env = dict(os.environ, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))  # where aotc looks for NVRTC
        env.setdefault("AOTC_TEST_PARENT", str(os.getppid()))
        command = [sys.executable, "-IS", os.path.join(ROOT, "tests", "torch_process.py"), os.path.join(HERE, "make_cases.py"), "--aotc", o.make, "--out", o.cases, "--keep", "--sm", "sm_90a" if o.hopper else "sm_90", *o.names]
        r = subprocess.run(command, capture_output=True, text=True, env=env)
        if "NVRTC was not found" in r.stdout:
            sys.exit(77)
        if r.returncode:
            sys.exit(r.stdout + r.stderr)
    names = o.names or sorted(os.path.basename(f)[:-4] for f in glob.glob(os.path.join(o.cases, "*.npz")))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for ok, text in pool.map(lambda n: run(o, n), names):
            failed += not ok
            print(text, flush=True)
    print(f"{len(names) - failed} of {len(names)} cases pass on the emulated GPU")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
