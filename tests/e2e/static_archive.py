"""Models as archives (aotc build --emit static): two in one static program, beside their shared objects; what is refused.

    static_archive.py --aotc BIN --device BIN --work DIR [name ...]
"""
import os
import shutil
import subprocess
import sys

import numpy as np
import torch
from ci_case import Net, main, test
from torch import nn

INCLUDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime", "include")
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings"]
PROGRAM = r"""
#include "mlp.h"
#include "conv.h"
#include <stdio.h>
#include <stdlib.h>

static aotc_model* made(const aotc_api* api, const char* weights) {
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  aotc_model* model = NULL;
  options.flags = AOTC_MODEL_VERIFY_WEIGHTS;
  options.weights_path = weights;
  if (api->model_create(&options, &model) != AOTC_STATUS_OK) {
    fprintf(stderr, "%s\n", api->last_error());
    exit(3);
  }
  return model;
}

int main(int argc, char** argv) {
  static float x[5 * 64], scores[5 * 64], image[2 * 3 * 16 * 16], planes[2 * 4 * 16 * 16];
  static int64_t best[5];
  const mlp_sizes rows = {5};
  const aotc_api *a = mlp_get_api(AOTC_ABI_VERSION), *b = conv_get_api(AOTC_ABI_VERSION);
  aotc_model* models[2] = {made(a, NULL), made(b, argc > 1 ? argv[1] : NULL)};
  aotc_context* contexts[2];
  if (a == b || mlp_get_api(AOTC_ABI_VERSION + 1)) return 4;
  if (mlp_context_create(a, models[0], 2, 0, &contexts[0]) || conv_context_create(b, models[1], 1, 0, &contexts[1])) return 5;
  if (fread(x, 1, sizeof x, stdin) != sizeof x || fread(image, 1, sizeof image, stdin) != sizeof image) return 6;
  if (mlp_run(a, contexts[0], &rows, x, scores, best)) return fprintf(stderr, "%s\n", a->last_error()), 7;
  if (conv_run(b, contexts[1], NULL, image, planes)) return fprintf(stderr, "%s\n", b->last_error()), 8;
  fwrite(scores, 1, sizeof scores, stdout);
  fwrite(best, 1, sizeof best, stdout);
  fwrite(planes, 1, sizeof planes, stdout);
  a->context_destroy(contexts[0]), a->model_destroy(models[0]);
  b->context_destroy(contexts[1]), b->model_destroy(models[1]);
  return 0;
}
"""
CPP = r"""
#include "mlp.h"
#include <aotc/aotc.hpp>
#include <cstdio>

int main() {
  aotc::host::Model model;
  aotc::host::Context context;
  aotc::host::Model::linked(mlp_get_api, &model).check();
  model.context(&context).check();
  std::vector<float> x(64, 0.5f), scores(64);
  std::vector<int64_t> best(1);
  context.run({aotc::host::tensor(x.data(), {1, 64})}, {aotc::host::tensor(scores.data(), {1, 64}), aotc::host::tensor(best.data(), {1})}).check();
  std::printf("%d\n", static_cast<int>(best[0]));
}
"""


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, image):
        return torch.softmax(self.conv(image).sort(-1).values, 1)


MADE = {}


def archives(c, *of_conv):
    """In `static/` both models as .a with headers, made once; inputs as the programs read them, and what the .so answer to these."""
    if of_conv not in MADE:
        MADE[of_conv] = c.at("static"), *made(c, of_conv)
    elif MADE[of_conv][0] != c.at("static"):
        shutil.copytree(MADE[of_conv][0], c.at("static"))
    return MADE[of_conv][1:]


def made(c, of_conv):
    pt2 = {"mlp": c.net("mlp", depth=2), "conv": c.exported("conv", Conv, torch.randn(2, 3, 16, 16))}
    os.makedirs(c.at("static"))
    os.makedirs(c.at("shared"))
    data, answers = b"", b""
    for name, inputs in (("mlp", {"x": (5, 64)}), ("conv", {"image": (2, 3, 16, 16)})):
        so = c.built(pt2[name], os.path.join("shared", name))
        words = ["build", pt2[name], "-o", c.at("static", name + ".a"), "--cpu", "avx2", "--emit", "static", "--quiet"]
        c.run(*words, *(of_conv if name == "conv" else []))
        for i, shape in inputs.items():
            x = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
            np.save(c.at(i + ".npy"), x)
            data += x.tobytes()
        c.run("run", so, *[w for i in inputs for w in ("--input", f"{i}={c.at(i + '.npy')}")], "--output-dir", c.at("out_" + name), "--quiet")
        for o in ("scores", "best") if name == "mlp" else sorted(f[:-4] for f in os.listdir(c.at("out_conv"))):
            answers += np.load(c.at("out_" + name, o + ".npy")).tobytes()
    return data, answers


def program(c, compiler, name, *words, text=PROGRAM, suffix=".c"):
    with open(c.at(name + suffix), "w") as f:
        f.write(text)
    path = c.at(name)
    made = subprocess.run([*compiler, c.at(name + suffix), "-I", c.at("static"), *STRICT, c.at("static", "mlp.a"), *words, "-o", path],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return path


def answer(path, data, *words, exit_code=0):
    r = subprocess.run([path, *words], input=data, capture_output=True, cwd="/")
    assert r.returncode == exit_code, (r.returncode, r.stderr)
    return r.stdout if exit_code == 0 else r.stderr.decode()


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def is_static(path):
    return "no dynamic section" in said("readelf", "-d", path)


@test
def two_models_in_one_static_program(c):
    data, answers = archives(c)
    conv = c.at("static", "conv.a")
    static = program(c, ["gcc", "-std=c11"], "static_program", conv, "-static")
    assert is_static(static)
    assert answer(static, data) == answers
    # Static and independent of its place; shared C library; a shared object of the user's with everything in it.
    assert answer(program(c, ["gcc"], "static_pie", conv, "-static-pie"), data) == answers
    assert answer(program(c, ["gcc"], "dynamic", conv, "-pthread"), data) == answers
    assert answer(program(c, ["gcc"], "collected", conv, "-static", "-Wl,--gc-sections"), data) == answers
    for other in ("clang", "clang-16", "clang-15", "clang-14"):
        if shutil.which(other):
            assert answer(program(c, [other], other, conv, "-static"), data) == answers
            break
    for name in ("mlp", "conv"):
        symbols = said("nm", "--defined-only", "-g", c.at("static", name + ".a"))
        shown = {line.split()[-1] for line in symbols.splitlines() if len(line.split()) == 3}
        assert shown == {name + "_get_api", name + "_aotc_weights"}, shown
        asked = {line.split()[-1] for line in said("nm", "-u", c.at("static", name + ".a")).splitlines() if line.startswith(" ")}
        assert not asked & {"dlopen", "dlsym", "dlerror", "aotc_get_api"} and not [a for a in asked if a.startswith("_Z")], asked


@test
def with_musl(c):
    if not shutil.which("musl-gcc"):
        print("skipped: musl-gcc is not there (Debian: musl-tools)")
        return
    data, answers = archives(c)
    static = program(c, ["musl-gcc", "-std=c11"], "musl_program", c.at("static", "conv.a"), "-static")
    assert is_static(static)
    assert answer(static, data) == answers


@test
def with_weights_in_a_file(c):
    data, answers = archives(c, "--weights-file")
    weights = c.at("conv.weights")
    static = program(c, ["gcc"], "program", c.at("static", "conv.a"), "-static")
    assert "conv.weights: No such file" in answer(static, data, exit_code=3)
    shutil.copy(c.at("static", "conv.weights"), weights)  # beside the program
    assert answer(static, data) == answers
    os.rename(weights, c.at("elsewhere"))
    assert answer(static, data, c.at("elsewhere")) == answers
    with open(c.at("elsewhere"), "r+b") as f:
        f.seek(9)
        f.write(b"\xff\xff")
    assert "damaged" in answer(static, data, c.at("elsewhere"), exit_code=3)


@test
def weights_in_the_program_are_checked(c):
    data, _ = archives(c)
    static = program(c, ["gcc"], "program", c.at("static", "conv.a"), "-static")
    section = next(line.split() for line in said("objdump", "-h", static).splitlines() if ".lrodata" in line)
    symbol = next(line.split() for line in said("nm", static).splitlines() if line.endswith("mlp_aotc_weights"))
    assert int(symbol[0], 16) % 4096 == 0, symbol
    with open(static, "r+b") as f:
        f.seek(int(symbol[0], 16) - int(section[3], 16) + int(section[5], 16) + 40)
        f.write(b"\xff\xff")
    assert "weights in it are not what was built" in answer(static, data, exit_code=3)


@test
def from_cpp(c):
    archives(c)
    path = program(c, ["g++", "-std=c++17", "-I", INCLUDE], "program", "-static", text=CPP, suffix=".cpp")
    assert is_static(path) and 0 <= int(said(path)) < 64


@test
def several_methods_under_a_prefix(c):
    one, two = c.net("one"), c.net("two", depth=3, seed=1)
    report = c.json("report", "build", f"wide={one}", f"deep={two}", "-o", c.at("libnet.a"), "--emit", "static", "--prefix", "net", "--cpu", "avx2")
    assert (report["emit"], report["prefix"], report["artifact"]) == ("static", "net", c.at("libnet.a")) and "glibc" not in report
    text = r"""
#include "libnet.h"
int main(void) {
  static float x[64], scores[64];
  int64_t best;
  aotc_model* model;
  aotc_context* context;
  const net_deep_sizes rows = {1};
  const aotc_api* api = net_get_api(AOTC_ABI_VERSION);
  if (api->model_create(NULL, &model) || net_context_create(api, model, 1, 0, &context)) return 1;
  return net_wide_run(api, context, (const net_wide_sizes*)&rows, x, scores, &best) || net_deep_run(api, context, &rows, x, scores, &best);
}
"""
    with open(c.at("main.c"), "w") as f:
        f.write(text)
    subprocess.run(["gcc", c.at("main.c"), c.at("libnet.a"), "-static", *STRICT, "-o", c.at("main")], check=True)
    subprocess.run([c.at("main")], check=True)


CMAKE = """cmake_minimum_required(VERSION 3.18)
project(service C)
add_library(aotc::aotc INTERFACE IMPORTED)  # as aotcConfig.cmake has it
include(%s/lib/cmake/aotc/AddAotcModel.cmake)
add_aotc_model(net PT2 %s CPU avx2 STATIC)
add_executable(service main.c)
target_link_libraries(service PRIVATE net)
target_link_options(service PRIVATE -static)
"""


@test
def in_a_cmake_project(c):
    if not shutil.which("cmake"):
        print("skipped: cmake is not there")
        return
    for folder in ("bin", "lib/aotc", "lib/cmake/aotc", "service"):
        os.makedirs(c.at("prefix", folder) if folder != "service" else c.at(folder))
    os.symlink(c.aotc, c.at("prefix", "bin", "aotc"))
    with open(c.at("prefix", "lib", "aotc", "libaotc_torch.so"), "w"):
        pass
    shutil.copy(os.path.join(INCLUDE, "..", "..", "packaging", "AddAotcModel.cmake"), c.at("prefix", "lib", "cmake", "aotc"))
    with open(c.at("service", "CMakeLists.txt"), "w") as f:
        f.write(CMAKE % (c.at("prefix"), c.net()))
    with open(c.at("service", "main.c"), "w") as f:
        f.write('#include <net.h>\nint main(void) { return net_get_api(AOTC_ABI_VERSION)->probe(AOTC_DEVICE_HOST); }\n')
    said("cmake", "-S", c.at("service"), "-B", c.at("made"), "-G", "Unix Makefiles")
    said("cmake", "--build", c.at("made"))
    assert is_static(c.at("made", "service"))
    said(c.at("made", "service"))


@test
def kept_sources_make_it_again(c):
    pt2 = c.net()
    words = ["build", pt2, "--cpu", "avx2", "--emit", "static", "--quiet"]
    c.run(*words, "-o", c.at("net.a"), "--keep", c.at("kept"))
    c.run(*words, "-o", c.at("net2.a"), "--prefix", "net")
    subprocess.run([c.at("kept", "build.sh"), c.at("again.a")], check=True, capture_output=True)
    first = open(c.at("net.a"), "rb").read()
    assert open(c.at("again.a"), "rb").read() == first
    assert open(c.at("net2.a"), "rb").read() == first


@test
def what_does_not_go_together(c):
    pt2, before = c.net(), set(os.listdir(c.folder))

    def refused(text, *words, exit_code=2):
        r = c.run(*words, exit_code=exit_code)
        assert text in r.stderr, r.stderr

    static = ["build", pt2, "--emit", "static"]
    refused("--prefix is for --emit static", "build", pt2, "--prefix", "net")
    refused("is for CPUs, not for sm_90a", *static, "-o", c.at("net.a"), "--cuda", "sm_90a")
    refused("call it .a", *static, "-o", c.at("net.so"))
    refused("-o model.a", "build", f"a={pt2}", f"b={pt2}", "--emit", "static")
    for prefix in ("9net", "my-net", "aotc", "größe"):
        refused("cannot begin names in C", *static, "-o", c.at("net.a"), "--prefix", prefix)
    refused("shared,static", *static[:3], "object")
    assert set(os.listdir(c.folder)) <= before | {"net.pt2"}
    c.run(*static, "-o", c.at("net.a"), "--cpu", "avx2", "--quiet")
    refused("shared object of the same model", "run", c.at("net.a"), "--output-dir", c.at("out"), exit_code=3)


if __name__ == "__main__":
    empty = subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", os.devnull], input=b"int main(void) { return 0; }", capture_output=True)
    if empty.returncode != 0:
        print("skipped: no static C library is there (Debian: libc6-dev)")
        sys.exit(77)
    main()
