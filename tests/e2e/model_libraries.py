"""Models of torchvision, torchaudio and timm with random weights: exported, built and verified, each in turn, and timed beside eager.

    model_libraries.py --aotc BIN --out RESULTS.jsonl [--work DIR] [--jobs N] [--seconds S] [--only REGEX]
    model_libraries.py --show RESULTS.jsonl

Of timm the small members of every module. Every third model of images has a symbolic batch, every fourth is exported decomposed. Times are
of one thread while --jobs models run side by side: good for finding the slow ones, not for figures. Not part of the tests: needs the three
libraries and takes minutes.
"""
import argparse
import collections
import json
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import time
import warnings

import torch

VISION = """alexnet vgg11_bn resnet18 resnext50_32x4d wide_resnet50_2 densenet121 squeezenet1_1 googlenet inception_v3 mobilenet_v2 mobilenet_v3_small
shufflenet_v2_x0_5 mnasnet0_5 efficientnet_b0 efficientnet_v2_s regnet_y_400mf regnet_x_400mf convnext_tiny vit_b_32 swin_t swin_v2_t maxvit_t""".split()
SEGMENTATION = ["fcn_resnet50", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large"]
VIDEO = ["r3d_18", "mc3_18", "r2plus1d_18", "mvit_v1_b", "swin3d_t"]
AUDIO = """wav2vec2_base hubert_base deepspeech wav2letter conv_tasnet squim_objective wavernn hdemucs spectrogram melspec mfcc griffinlim
resample""".split()
SMALL = "atto femto pico nano tiny xxs xs _s0 _t0 _0 small mini _s _t 18 lite b0 _m0 050 10 26 33".split()
LARGE = r"giant|huge|large|_xl|enormous|gigantic|384|448|512|xxlarge|so400|so150|_lg|7b"


def timm_names():
    """At most four small models of every module, of different families."""
    import timm

    modules = collections.defaultdict(list)
    for name in timm.list_models():
        modules[timm.models._registry._model_to_module.get(name, "")].append(name)
    for _, names in sorted(modules.items()):
        families = {}
        size = lambda n: (next((i for i, s in enumerate(SMALL) if s in n), len(SMALL)), len(n))
        for n in sorted([n for n in names if not re.search(LARGE, n)] or names[:1], key=size):
            families.setdefault(re.split(r"[_\d]", n)[0], n)
        yield from list(families.values())[:4]


def jobs_of(only):
    kinds = [("vision", VISION), ("segmentation", SEGMENTATION), ("video", VIDEO), ("audio", AUDIO), ("timm", list(timm_names()))]
    return [(i, kind, n) for i, (kind, n) in enumerate((k, n) for k, names in kinds for n in names) if not only or re.search(only, n)]


def audio(n):
    import torchaudio
    from torch import nn

    models, transforms, wave = torchaudio.models, torchaudio.transforms, torch.randn(1, 16000)
    makers = {
        "deepspeech": lambda: (models.DeepSpeech(80), torch.randn(1, 1, 50, 80)),
        "wav2letter": lambda: (models.Wav2Letter(input_type="waveform"), torch.randn(1, 1, 16000)),
        "conv_tasnet": lambda: (models.ConvTasNet(2, enc_num_feats=64, msk_num_feats=32, msk_num_hidden_feats=64, msk_num_layers=4, msk_num_stacks=2), torch.randn(1, 1, 8000)),
        "squim_objective": lambda: (models.squim_objective_base(), wave),
        "wavernn": lambda: (models.WaveRNN([5, 5, 8], n_classes=64, hop_length=200, n_rnn=64, n_fc=64), torch.rand(1, 1, 2000), torch.rand(1, 1, 128, 14)),
        "hdemucs": lambda: (models.hdemucs_low(["a", "b"]), torch.randn(1, 2, 16384)),
        "spectrogram": lambda: (transforms.Spectrogram(), wave),
        "melspec": lambda: (nn.Sequential(transforms.MelSpectrogram(16000), transforms.AmplitudeToDB()), wave),
        "mfcc": lambda: (transforms.MFCC(16000), wave),
        "griffinlim": lambda: (transforms.GriffinLim(n_iter=2, rand_init=False), torch.rand(1, 201, 40)),
        "resample": lambda: (transforms.Resample(16000, 11025), wave),
    }
    module, *args = makers[n]() if n in makers else (getattr(models, n)(), wave)
    return module, tuple(args)


class First(torch.nn.Module):
    """The "out" of a segmentation model."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)["out"]


def make(kind, n):
    torch.manual_seed(0)
    if kind == "audio":
        return audio(n)
    if kind == "timm":
        import timm

        config = timm.get_pretrained_cfg(n)
        channels, side, _ = config.input_size if config else (3, 224, 224)
        side = min(side, 256)
        try:
            module = timm.create_model(n, img_size=side) if config and config.fixed_input_size else timm.create_model(n)
        except TypeError:
            module = timm.create_model(n)
        return module, (torch.randn(2, channels, side, side),)
    import torchvision.models as models

    extra = {"segmentation": {"weights_backbone": None}}.get(kind, {})
    if n in ("googlenet", "inception_v3"):
        extra = {"aux_logits": n == "inception_v3", "init_weights": False}
    module = models.get_model(n, weights=None, **extra)
    if kind == "segmentation":
        return First(module), (torch.randn(2, 3, 128, 160),)
    if kind == "video":
        side = 224 if "mvit" in n else 112
        return module, (torch.randn(1, 3, 16, side, side),)
    side = 299 if n == "inception_v3" else 224
    return module, (torch.randn(2, 3, side, side),)


def export(index, kind, n, path):
    module, args = make(kind, n)
    module = module.eval().requires_grad_(False)
    dynamic = ({0: torch.export.Dim.AUTO(min=1, max=8)},) if index % 3 == 0 and len(args) == 1 and args[0].shape[0] == 2 else None
    with torch.no_grad():
        program = torch.export.export(module, args, dynamic_shapes=dynamic, strict=False)
        if index % 4 == 1:
            program = program.run_decompositions()
        torch.export.save(program, path)
    return dynamic is not None


def run(command, seconds):
    try:
        r = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        return r.returncode, r.stdout, r.stderr
    except subprocess.TimeoutExpired:
        return -1, "", f"took over {seconds} s"


def one(job):
    o, index, kind, n = job
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    row = {"kind": kind, "name": n, "stage": "export"}
    if time.time() > o.until:
        return {**row, "stage": "skipped"}
    path = os.path.join(o.work, f"{kind}.{n}")

    def late(*_):
        raise TimeoutError("export took over 90 s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(90)
    try:
        row["dynamic"] = export(index, kind, n, path + ".pt2")
    except Exception as e:
        return {**row, "why": f"{type(e).__name__}: {str(e)[:300]}"}
    finally:
        signal.alarm(0)
    for stage, command in [
        ("build", [o.aotc, "build", path + ".pt2", "-o", path + ".so", "--quiet", "--jobs", "1"]),
        ("verify", [o.aotc, "verify", path + ".so", "--against", path + ".pt2", "--samples", "1"]),
        ("bench", [o.aotc, "bench", path + ".so", "--against", path + ".pt2", "--threads", "1", "--json"]),
    ]:
        rc, out, err = run(command, 300)
        if rc:
            row.update(stage=stage, rc=rc, why=(err + out)[-600:])
            break
    else:
        row.update(stage="ok", eager_over_aotc=json.loads(out)["eager_over_aotc"])
    for suffix in (".pt2", ".so", ".h", ".report.json"):
        if os.path.exists(path + suffix):
            os.remove(path + suffix)
    return row


def show(file):
    rows = [json.loads(line) for line in open(file)]
    print(dict(collections.Counter(r["stage"] for r in rows)))
    for r in rows:
        if r["stage"] not in ("ok", "skipped"):
            print(r["stage"], r["kind"], r["name"], r.get("why", "").replace("\n", " ")[:300])
    ratios = sorted((r["eager_over_aotc"], r["name"]) for r in rows if r["stage"] == "ok")
    if ratios:
        print("eager / aotc: median %.2f; slowest" % statistics.median(x for x, _ in ratios), ", ".join(f"{n} {x:.2f}" for x, n in ratios[:10]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--aotc")
    p.add_argument("--out")
    p.add_argument("--work", default="model_libraries_work")
    p.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    p.add_argument("--seconds", type=float, default=1e9, help="no new model is begun after so long")
    p.add_argument("--only")
    p.add_argument("--show")
    o = p.parse_args()
    if o.show:
        return show(o.show)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.makedirs(o.work, exist_ok=True)
    o.until = time.time() + o.seconds
    jobs = [(o, *j) for j in jobs_of(o.only)]
    with multiprocessing.get_context("spawn").Pool(o.jobs, maxtasksperchild=8) as pool, open(o.out, "w") as f:
        for row in pool.imap_unordered(one, jobs):
            print(f"{row['stage']:8} {row['name']} {row.get('why', '')[:120]}".replace("\n", " "), flush=True)
            f.write(json.dumps(row) + "\n")
            f.flush()
    show(o.out)


if __name__ == "__main__":
    main()
