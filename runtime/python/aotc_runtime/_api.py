"""The classes that aotc_runtime exports, over the extension _native."""

from __future__ import annotations

import json
import math
import os
import time
from functools import cached_property
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _native

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

Arrays = Union[Sequence[Any], Mapping[str, Any], Any]
Part = Mapping[int, Union[int, slice]]  # of a state: by dimension, from 0 or from the last back (-1), an index or slice(start, stop)


class Dim(NamedTuple):
    """One dimension of an input, output or state."""

    value: Optional[int]  # the size where it is fixed
    min: int
    max: Optional[int]  # inclusive; None: unbounded
    symbol: Optional[str]  # "batch", "2*seq + 1"; None where it is fixed


class TensorInfo(NamedTuple):
    """What an input, output or state is."""

    name: str
    dtype: str  # "float32", "bfloat16", "int64", "bool", ...
    dims: Tuple[Dim, ...]
    alias_input: Optional[int]  # outputs: the input whose new content this is, and on which it may lie

    @property
    def shape(self) -> Tuple[Union[int, str], ...]:
        """Sizes where they are fixed, else the symbols: (\"batch\", 384)."""
        return tuple(d.symbol or "?" if d.value is None else d.value for d in self.dims)


class Method(NamedTuple):
    """One program of an artifact; all of them share its weights and states."""

    name: str
    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]


class ModelInfo(NamedTuple):
    weights_bytes: int
    target: str  # the code in use: "avx2", "amx", "sm_90a", ...
    device: int  # -1: the CPU, else the GPU's ordinal
    variants: int
    weights_version: int  # that new runs take, from 1


class ContextInfo(NamedTuple):
    workspace_bytes: int  # held now
    arena_bytes: int  # used by the latest run, as the two below
    scratch_bytes: int
    state_bytes: int
    variant: Optional[str]
    threads: int
    graphs: int  # GPU: shapes whose runs are one launch of a CUDA graph
    weights_version: int  # of the latest run; 0: none


class Step(NamedTuple):
    """One step of the latest run."""

    label: str
    ns: int
    threads: int


class Timing(NamedTuple):
    """Wall-clock times of runs, in microseconds. On a GPU a run counts until it is done."""

    runs: int
    min_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    mean_us: float


def _device(device: Union[None, int, str]) -> int:
    if device is None:
        return _native.DEFAULT_DEVICE
    if isinstance(device, int):
        return device
    kind, _, ordinal = device.partition(":")
    if kind == "cpu" and not ordinal:
        return _native.HOST
    if kind == "cuda" and (ordinal.isdecimal() or not _):
        return int(ordinal or 0)
    raise ValueError(f"device {device!r}: expected 'cpu', 'cuda', 'cuda:N', a GPU's ordinal, or None for the best that the artifact has code for")


def _array(tensor: _native.Tensor) -> Any:
    """A NumPy array over the tensor's memory, where there is NumPy."""
    if numpy is None:
        return tensor
    array = numpy.asarray(tensor)
    if tensor.dtype.startswith(("bfloat16", "float8")):
        try:
            import ml_dtypes
        except ImportError:
            return array  # the bits, as unsigned integers
        return array.view(getattr(ml_dtypes, tensor.dtype))
    return array


def _ranges(part: Optional[Part]) -> Optional[Sequence[Tuple[int, int, int]]]:
    """(dim, offset, length) of each dimension."""
    if part is None:
        return None
    ranges = []
    for dim, of in part.items():
        if isinstance(of, slice):
            if of.step not in (None, 1) or of.stop is None or (of.start or 0) < 0 or of.stop < (of.start or 0):
                raise ValueError(f"part {part}: expected slices from a start to a stop, both from 0 on")
            ranges.append((dim, of.start or 0, of.stop - (of.start or 0)))
        else:
            ranges.append((dim, of, 1))
    return ranges


class Cancel:
    """Ends runs that were given it, from any thread. One that is set ends every run until it is cleared."""

    def __init__(self) -> None:
        self._word = memoryview(bytearray(8)).cast("i")[:1]

    def set(self) -> None:
        self._word[0] = 1

    def clear(self) -> None:
        self._word[0] = 0

    def is_set(self) -> bool:
        return self._word[0] != 0


class Context(_native.Context):
    """One stream of runs of a model; made by Model.context. Usable in a `with` statement."""

    model: Model

    def run(self, inputs: Arrays, outputs: Optional[Arrays] = None, *, timeout: Optional[float] = None, cancel: Optional[Cancel] = None,
            method: Optional[str] = None, traceparent: Optional[str] = None) -> Any:
        """Computes; returns the outputs.

        inputs: in the model's order, by name, or the array itself where there is one. Each exports a buffer (NumPy), DLPack (torch, on
        the model's GPU too) or __array_interface__. Dense row-major ones are read in place, others copied. bfloat16 and float8 may also
        come as unsigned integers of their bits.
        outputs: arrays that are written in place, dense, of the shapes of output_bounds; they are returned. None: a tuple of new NumPy
        arrays (of ml_dtypes' types for bfloat16 and float8 where that package is, else their bits), without NumPy of Tensors; where sizes
        depend on data, of the sizes that they have.
        timeout: seconds; a run that takes longer raises DeadlineExceeded. cancel: a Cancel that any thread may set; the run raises
        Cancelled. Outputs are undefined then, and so may states be: the message says so.
        method: which of Model.methods; None: the first.
        traceparent: the W3C header of the request that the run is for, as OpenTelemetry's propagators inject it; USDT probes and NVTX ranges
        of the run have it. One that is malformed is ignored.
        With all tensors on a GPU the call returns when the work is queued on the context's stream.
        """
        word = None if cancel is None else cancel._word
        if outputs is None:
            return tuple([_array(t) for t in self._run(inputs, None, timeout, word, method, traceparent)])
        return self._run(inputs, outputs, timeout, word, method, traceparent)

    def state_read(self, name: str, out: Any = None, part: Optional[Part] = None) -> Any:
        """A copy of the state, or of a part of it ({2: slice(0, 400)}: 400 elements along dimension 2); `out` where that is given."""
        got = self._state_read(name, out, _ranges(part))
        return out if out is not None else _array(got)

    def state_write(self, name: str, value: Any, part: Optional[Part] = None) -> None:
        """Copies an array of the shape and type of the state, or of a part of it, into it."""
        self._state_write(name, value, _ranges(part))

    def states_save(self, file: Any, part: Optional[Part] = None) -> None:
        """Writes all states, or a part of each, to a descriptor or to what has one and buffers nothing (open(..., buffering=0), a socket).

        States that have fewer elements along a dimension are saved as far as they go, those without it whole.
        """
        self._states_file(file, _ranges(part), True)

    def states_load(self, file: Any, to: Optional[Part] = None) -> None:
        """Reads what states_save wrote: to where it was, or to a part of the same shape. Raises Incompatible for states of another artifact,
        Damaged for what is cut off or none."""
        self._states_file(file, _ranges(to), False)

    def states_fork(self, source: Context, part: Optional[Part] = None) -> None:
        """Takes the states of another context of this model; outside of `part` the initial content. On a CPU both contexts have the same
        memory until one of them writes to it."""
        self._states_from(source, _ranges(part), None)

    def states_copy(self, to: Part, source: Context, part: Part) -> None:
        """Copies a part of the states of a context of this model, or of this very one, to a part of the same shape."""
        self._states_from(source, _ranges(part), _ranges(to) or ())

    def states_truncate(self, dim: int, length: int, name: Optional[str] = None) -> None:
        """Behind the first `length` elements along `dim` the states, or the one of that name, have their initial content again."""
        self._states_truncate(dim, length, name)

    @property
    def info(self) -> ContextInfo:
        """Bytes held and used, threads granted, the latest run's variant."""
        return ContextInfo(*self._info())

    def profile(self) -> Sequence[Step]:
        """Times of the latest run's steps, of a context made with profile=True."""
        return [Step(*s) for s in self._profile()]

    def bench(self, inputs: Arrays, outputs: Optional[Arrays] = None, *, seconds: float = 1.0, warmup: int = 10,
              method: Optional[str] = None) -> Timing:
        """Times runs for about `seconds`, after `warmup` of them, outside of Python."""
        begin = time.perf_counter_ns()
        self._time(inputs, outputs, max(warmup, 1), method)
        one_ns = max(1, (time.perf_counter_ns() - begin) // max(warmup, 1))
        runs = min(10_000_000, max(10, math.ceil(seconds * 1e9 / one_ns)))
        ns = sorted(self._time(inputs, outputs, runs, method))
        rank = lambda share: ns[min(runs - 1, math.ceil(share * runs) - 1)] / 1e3
        return Timing(runs, ns[0] / 1e3, rank(0.5), rank(0.9), rank(0.99), sum(ns) / runs / 1e3)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _infos(raw: Sequence[Any]) -> Tuple[TensorInfo, ...]:
    dim = lambda d: Dim(d[0] if d[0] >= 0 else None, d[1], d[2] if d[2] != 2**63 - 1 else None, d[3] if d[0] < 0 else None)
    return tuple(TensorInfo(name, dtype, tuple(map(dim, dims)), alias if alias >= 0 else None) for name, dtype, dims, alias in raw)


class Model(_native.Model):
    """An artifact, loaded; made by `load`. Any number of threads may use it."""

    path: Optional[str]  # None: from a descriptor or memory

    @cached_property
    def methods(self) -> Tuple[Method, ...]:
        """The programs that it was built of, with their names; "forward" where it was one without a name."""
        return tuple(Method(name, _infos(self._io(_native.INPUT, i)), _infos(self._io(_native.OUTPUT, i))) for i, name in enumerate(self._methods()))

    @property
    def inputs(self) -> Tuple[TensorInfo, ...]:
        """The inputs of the first method, in the order of run."""
        return self.methods[0].inputs

    @property
    def outputs(self) -> Tuple[TensorInfo, ...]:
        """The outputs of the first method, in the order of run."""
        return self.methods[0].outputs

    @cached_property
    def states(self) -> Tuple[TensorInfo, ...]:
        """Buffers that outlive a run (a KV cache), one set a context."""
        return _infos(self._io(_native.STATE, 0))

    @cached_property
    def metadata(self) -> Any:
        """The model's description, as aotc inspect shows it (schemas/metadata.schema.json)."""
        return json.loads(self._metadata_json())

    @property
    def info(self) -> ModelInfo:
        """Bytes of weights, the code in use, the device."""
        return ModelInfo(*self._info())

    def swap_weights(self, source: Any = None, *, verify: bool = False) -> int:
        """Gives the model other weights while it is in use: runs that begin later take them, in every context; runs under way keep theirs.

        source: the path of a weights file (aotc weights), which is mapped, or a descriptor that is open on it; its content in memory (bytes, or
        what exports contiguous ones), which is copied; a function(offset, size) that returns that many bytes of the content; None: the
        artifact's own weights.
        verify: hashes the content. Returns the version of the weights, which counts up. On failure the model keeps those that it has.
        """
        given = memoryview(source) if isinstance(source, (bytes, bytearray)) else source
        return self._swap_weights(given, _native.WEIGHTS_VERIFY if verify else 0)

    def trim(self) -> int:
        """Gives the memory of the weights back to the system, for a model that will not run for a while; returns how many bytes.

        Pages of files come back as runs read them; a copy of the process's own is freed, and runs read the file's pages until the next swap;
        weights that came from memory or a function stay. Any thread, also while runs are under way.
        """
        return self._trim()

    def context(self, threads: int = 1, *, stream: Any = 0, graphs: Optional[bool] = None, profile: bool = False, stepwise: bool = False,
                flush_denormals: bool = False, forks: bool = False) -> Context:
        """Makes a context.

        threads: of its own, the calling one included; -1: as many as the calling thread may use.
        stream: GPU: the CUstream that runs are queued on, an integer or an object with `cuda_stream` (torch); 0: the default stream.
        graphs: GPU: CUDA graphs from a shape's second run on; None: as the artifact was built.
        profile: measures every step, for Context.profile. stepwise: GPU: waits after every step, to find the one that fails.
        flush_denormals: CPU: denormal numbers count as 0.
        forks: CPU: the states lie in a memory file, so that the first Context.states_fork from this context copies nothing either.
        """
        chosen = {"GRAPHS": graphs is True, "NO_GRAPHS": graphs is False, "PROFILE": profile, "STEPWISE": stepwise,
                  "FLUSH_DENORMALS": flush_denormals, "FORKS": forks}
        flags = sum(getattr(_native, name) for name, wanted in chosen.items() if wanted)
        made = Context(self, threads, flags, getattr(stream, "cuda_stream", stream) or 0)
        made.model = self
        return made


def _load(artifact: Any, device: Union[None, int, str], weights: Union[None, str, os.PathLike[str]], verify_weights: bool, lazy_weights: bool,
          own_weights: Optional[bool], weights_budget: int) -> Model:
    chosen = {"VERIFY_WEIGHTS": verify_weights, "LAZY_WEIGHTS": lazy_weights, "OWN_WEIGHTS": own_weights is True,
              "SHARED_WEIGHTS": own_weights is False}
    return Model(artifact, _device(device), sum(getattr(_native, name) for name, wanted in chosen.items() if wanted), weights, weights_budget)


def load(path: Union[str, os.PathLike[str], int], device: Union[None, int, str] = None, *,
         weights: Union[None, str, os.PathLike[str]] = None, verify_weights: bool = False, lazy_weights: bool = False,
         own_weights: Optional[bool] = None, weights_budget: int = 0) -> Model:
    """Loads an artifact: the file that lies at `path` now, checked before anything of it is mapped.

    path: or a descriptor that is open on the file; it stays the caller's.
    device: "cpu", "cuda", "cuda:1", a GPU's ordinal, or None: the best that the artifact has code for.
    weights: the weights file, where it is not beside the artifact under its own name.
    verify_weights: hashes the weights too (0.1 s a GB). lazy_weights: CPU: pages are mapped when a run touches them.
    own_weights: CPU: True: a copy in huge pages of this process's own; False: shared with other processes whatever the artifact does by itself.
    weights_budget: GPU: the most bytes of the device's memory for weights; runs copy the others to it ahead of the steps that read them. 0: as
    much as is free.
    Raises NotFound, Incompatible (not an artifact, or not for this machine: the message says what it lacks), Damaged, OutOfMemory, DeviceError.
    """
    model = _load(path, device, weights, verify_weights, lazy_weights, own_weights, weights_budget)
    model.path = None if isinstance(path, int) else os.fspath(path)
    return model


def load_memory(data: Any, device: Union[None, int, str] = None, *, weights: Union[None, str, os.PathLike[str]] = None,
                verify_weights: bool = False, lazy_weights: bool = False, own_weights: Optional[bool] = None,
                weights_budget: int = 0) -> Model:
    """Loads an artifact from memory: bytes, or what exports contiguous ones (memoryview, mmap, NumPy), with the content of its file. They are
    copied; nothing is written to a file system. Otherwise as load."""
    model = _load(memoryview(data), device, weights, verify_weights, lazy_weights, own_weights, weights_budget)
    model.path = None
    return model
