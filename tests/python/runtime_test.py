#!/usr/bin/env python3
"""runtime_test.py MODELS [-v]: aotc_runtime as it is installed, in an interpreter without torch, beside what eager gave (make_models.py)."""
import array
import gc
import mmap
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

import aotc_runtime as aotc

MODELS = Path(sys.argv.pop(1))


def stored(name, kind):
    return [np.load(p) for p in sorted(MODELS.glob(f"{name}.{kind}*.npy"))]


def values(a):
    """float64 of an array, bfloat16 given as its bits."""
    if a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return a.astype(np.float64)


class Everything(unittest.TestCase):
    def load(self, name):
        return aotc.load(MODELS / f"{name}.so")

    def check(self, got, expected, rtol=1e-5):
        self.assertEqual(len(got), len(expected))
        for g, e in zip(got, expected):
            g = np.asarray(g)
            g = g.view(np.uint16) if e.dtype == np.uint16 and g.dtype.name == "bfloat16" else g
            self.assertEqual(g.shape, e.shape)
            self.assertEqual(g.dtype, e.dtype)
            np.testing.assert_allclose(values(g), values(e), rtol=rtol, atol=rtol)

    def test_no_torch(self):
        with self.assertRaises(ImportError):
            import torch  # noqa: F401

    def test_every_element_type(self):
        for name, rtol in (("net", 1e-5), ("f16", 4e-3), ("bf16", 3e-2), ("mixed", 0), ("lookup", 0)):
            with self.subTest(name):
                model, inputs = self.load(name), stored(name, "in")
                with model.context() as context:
                    self.check(context.run(inputs), stored(name, "out"), rtol)
                    named = {info.name: a for info, a in zip(model.inputs, inputs)}
                    self.check(context.run(named), stored(name, "out"), rtol)

    def test_from_memory_and_descriptors(self):
        inputs, expected = stored("net", "in"), stored("net", "out")
        content = (MODELS / "net.so").read_bytes()
        changing = bytearray(content)
        models = [aotc.load_memory(content), aotc.load_memory(changing, "cpu", verify_weights=True)]
        changing[:] = bytes(len(changing))
        with open(MODELS / "net.so", "rb") as file:
            file.seek(100)
            models += [aotc.load(file.fileno()), aotc.load_memory(memoryview(content))]
            self.assertEqual(file.tell(), 100)
        with open(MODELS / "net.so", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            models.append(aotc.load_memory(mapped))
        for model in models:
            self.assertIsNone(model.path)
            self.check(model.context().run(inputs), expected)
        with self.assertRaises(aotc.Damaged):
            aotc.load_memory(content[:len(content) // 2])
        with self.assertRaises(aotc.Incompatible):
            aotc.load_memory(b"x" * 5000)
        with self.assertRaises(aotc.NotFound):
            aotc.load(987654)
        for wrong in (-1, 1 << 40):
            with self.assertRaises(ValueError):
                aotc.load(wrong)
        with self.assertRaises(TypeError):
            aotc.load_memory("net.so")

    def test_other_weights(self):
        inputs, own, tuned = stored("net", "in"), stored("net", "out"), stored("tuned", "out")
        path = MODELS / "tuned.weights"
        content = path.read_bytes()
        self.check(aotc.load(MODELS / "net.so", weights=path).context().run(inputs), tuned)
        model = self.load("net")
        contexts = [model.context(), model.context(threads=2)]
        asked = []

        def read(offset, size):
            asked.append((offset, size))
            return content[offset:offset + size]

        version = 1
        with open(path, "rb") as file:
            for source in (path, str(path), file.fileno(), content, memoryview(content), bytearray(content), read):
                self.assertEqual(model.swap_weights(source, verify=True), version + 1)
                for context in contexts:
                    self.check(context.run(inputs), tuned)
                    self.assertEqual(context.info.weights_version, model.info.weights_version)
                self.assertEqual(model.swap_weights(), version + 2)
                for context in contexts:
                    self.check(context.run(inputs), own)
                version += 2
        self.assertEqual(asked, [(len(content) - 64, 64), (0, len(content) - 64)])
        with self.assertRaises(aotc.NotFound):
            model.swap_weights(MODELS / "none.weights")
        with self.assertRaises(aotc.Damaged):
            model.swap_weights(content[:100])
        with self.assertRaises(aotc.Damaged):
            model.swap_weights(bytes([content[0] ^ 1]) + content[1:], verify=True)
        with self.assertRaises(aotc.Incompatible):
            self.load("bf16").swap_weights(path)
        with self.assertRaises(ZeroDivisionError):
            model.swap_weights(lambda offset, size: 1 // 0)
        with self.assertRaises(ValueError):
            model.swap_weights(lambda offset, size: b"")
        with self.assertRaises(TypeError):
            model.swap_weights(1.5)
        self.check(contexts[0].run(inputs), own)

    def test_memory_of_idle_weights(self):
        inputs, out = stored("net", "in"), stored("net", "out")
        model = self.load("net")
        context = model.context()
        self.check(context.run(inputs), out)
        for _ in range(2):
            self.assertGreaterEqual(model.trim(), 0)
            self.check(context.run(inputs), out)
        self.assertEqual((context.info.weights_version, model.info.weights_version), (1, 1))
        content = (MODELS / "tuned.weights").read_bytes()
        model.swap_weights(content)
        self.assertEqual(model.trim(), 0)
        self.check(context.run(inputs), stored("tuned", "out"))

    def test_timeouts_and_cancelling(self):
        context = self.load("net").context(threads=2)
        inputs, expected = stored("net", "in"), stored("net", "out")
        cancel = aotc.Cancel()
        out = [np.empty_like(e) for e in expected]
        self.check(context.run(inputs, timeout=1e6, cancel=cancel), expected)
        self.check(context.run(inputs, out, cancel=cancel, timeout=1e300), expected)
        cancel.set()
        for _ in range(2):
            with self.assertRaises(aotc.Cancelled) as caught:
                context.run(inputs, cancel=cancel)
        self.assertEqual(caught.exception.status, 13)
        cancel.clear()
        self.assertFalse(cancel.is_set())
        with self.assertRaises(TimeoutError) as caught:
            context.run(inputs, timeout=0)
        self.assertIsInstance(caught.exception, aotc.DeadlineExceeded)
        for wrong in (-1, float("nan")):
            with self.assertRaises(ValueError):
                context.run(inputs, timeout=wrong)
        with self.assertRaises(TypeError):
            context.run(inputs, timeout="soon")
        self.check(context.run(inputs, cancel=cancel), expected)

    def test_signature(self):
        model = self.load("mixed")
        self.assertEqual([i.dtype for i in model.inputs], ["int8", "bool", "int32"])
        self.assertEqual([i.dtype for i in model.outputs], ["int32", "bool", "int8"])
        self.assertEqual(model.inputs[2].shape, ())
        rows = model.inputs[0].dims[0]
        self.assertIsNone(rows.value)
        self.assertEqual((rows.min, rows.max), (1, 64))
        self.assertIsInstance(rows.symbol, str)
        self.assertEqual(model.metadata["inputs"][0]["name"], model.inputs[0].name)
        self.assertEqual(model.info.device, -1)
        self.assertGreater(self.load("net").workspace_size(), 0)
        self.assertIsNone(self.load("net").probe())

    def test_dynamic_shapes_into_the_callers_arrays(self):
        model = self.load("net")
        context = model.context(threads=2)
        whole = np.random.default_rng(1).normal(size=(64, 16)).astype(np.float32)
        expected = context.run(whole)[0].copy()
        for rows in (1, 2, 7, 33, 64):
            self.assertEqual(context.output_bounds([whole[:rows]]), ((rows, 4),))
            self.assertEqual(context.output_shapes([whole[:rows]]), ((rows, 4),))  # the name of before
            out = np.full((rows, 4), np.nan, np.float32)
            outs = [out]
            self.assertIs(context.run([whole[:rows]], outs), outs)
            np.testing.assert_allclose(out, expected[:rows], rtol=1e-5, atol=1e-6)

    def test_nothing_is_copied(self):
        context = self.load("net").context()
        address = lambda a: a.__array_interface__["data"][0]
        tensor = aotc.Tensor((5, 16), "float32")
        view = np.asarray(tensor)
        view[:] = stored("net", "in")[0]
        self.assertEqual(address(view) % 64, 0)
        self.assertEqual(address(np.from_dlpack(tensor)), address(view))
        out = aotc.Tensor((5, 4), "float32")
        context.run([tensor], [out])
        self.check([out], stored("net", "out"))
        self.assertEqual(address(np.asarray(out)), address(np.from_dlpack(out)))
        held = np.asarray(out)
        del out, tensor
        gc.collect()
        self.check([held], stored("net", "out"))

    def test_what_is_not_dense_is_read_too(self):
        context = self.load("net").context()
        x = stored("net", "in")[0]
        wide = np.zeros((5, 32), np.float32)
        wide[:, ::2] = x
        for y in (wide[:, ::2], np.asfortranarray(x), x[::-1].copy()[::-1]):
            self.check(context.run([y]), stored("net", "out"))
        with self.assertRaisesRegex(aotc.InvalidArgument, "C-contiguous"):
            context.run([x], [np.empty((5, 8), np.float32)[:, ::2]])

    def test_other_buffers(self):
        context = self.load("lookup").context()
        expected = stored("lookup", "out")
        for rows in (array.array("q", [3, 1, 9]), memoryview(np.array([3, 1, 9])), np.array([3, 1, 9], np.longlong)):
            self.check(context.run(rows), expected)
        read_only = np.array([3, 1, 9])
        read_only.flags.writeable = False
        self.check(context.run([read_only]), expected)
        out = np.empty((3, 6), np.float32)
        out.flags.writeable = False
        with self.assertRaisesRegex(aotc.InvalidArgument, "read-only"):
            context.run([read_only], [out])

    def test_ml_dtypes(self):
        try:
            import ml_dtypes
        except ImportError:
            self.skipTest("no ml_dtypes")
        inputs = [a.view(ml_dtypes.bfloat16) for a in stored("bf16", "in")]
        got = self.load("bf16").context().run(inputs)
        self.assertEqual(got[0].dtype, ml_dtypes.bfloat16)
        self.check([g.view(np.uint16) for g in got], stored("bf16", "out"), 3e-2)
        outputs = [np.empty(g.shape, ml_dtypes.bfloat16) for g in got]
        self.load("bf16").context().run(inputs, outputs)
        np.testing.assert_array_equal(outputs[1].view(np.uint16), got[1].view(np.uint16))

    def test_sizes_that_depend_on_data(self):
        context = self.load("found").context()
        x = stored("found", "in")[0]
        self.check(context.run([x]), stored("found", "out"))
        out = [np.empty(s, d) for s, d in zip(context.output_bounds([x]), (np.int64, np.float32))]
        context.run([x], out)
        rows = context.output_sizes(0)[0]
        np.testing.assert_array_equal(out[0][:rows], stored("found", "out")[0])
        self.assertEqual(context.run([np.zeros_like(x)])[0].shape, (0, 2))

    def test_states(self):
        model = self.load("counter")
        self.assertEqual([s.name for s in model.states], ["total"])
        x = stored("counter", "in")[0]
        first, second = model.context(), model.context()
        for i in range(1, 4):
            np.testing.assert_allclose(first.run([x])[0], 2 * i * x.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(first.state_read("total"), 3 * x.sum(0), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(second.state_read("total"), np.zeros(4))
        second.state_write("total", np.arange(4, dtype=np.float32))
        out = np.empty(4, np.float32)
        self.assertIs(second.state_read("total", out), out)
        np.testing.assert_array_equal(out, np.arange(4))
        second.state_reset("total")
        first.state_reset()
        np.testing.assert_array_equal(first.state_read("total"), np.zeros(4))
        with self.assertRaisesRegex(aotc.NotFound, "nothing"):
            first.state_read("nothing")

    def test_methods(self):
        model = self.load("methods")
        count, above = model.methods
        self.assertEqual((count.name, above.name), ("count", "above"))
        self.assertEqual(model.inputs, count.inputs)
        self.assertEqual([i.name for i in above.inputs], ["limit", "scale"])
        self.assertEqual([o.dtype for o in above.outputs], ["int64", "float32"])
        self.assertEqual([m.name for m in self.load("net").methods], ["forward"])
        x = np.array([[1, 0, 3, -1], [0.5, 0, 0, 4]], np.float32)
        limit, scale = np.float32(1), np.array([2, 1, 1, 1], np.float32)
        with model.context() as context:
            total = x.sum(0)
            np.testing.assert_allclose(context.run([x])[0], 2 * total)
            places, scaled = context.run({"scale": scale, "limit": limit}, method="above")
            np.testing.assert_array_equal(places, np.argwhere(total > 1))
            np.testing.assert_allclose(scaled, total * scale)
            np.testing.assert_allclose(context.run([x], method="count")[0], 4 * total)
            self.assertEqual(context.output_bounds([limit, scale], method="above"), ((4, 1), (4,)))
            self.assertEqual(context.output_bounds([x]), ((4,),))
            out = [np.empty(s, d) for s, d in zip(context.output_bounds([limit, scale], "above"), (np.int64, np.float32))]
            self.assertIs(context.run([limit, scale], out, timeout=60, method="above"), out)
            self.assertEqual(context.output_sizes(0), (3, 1))
            np.testing.assert_allclose(out[1], 2 * total * scale)
            self.assertGreater(context.bench([limit, scale], seconds=0.01, method="above").min_us, 0)
            self.assertGreater(model.workspace_size([limit, scale], method="above"), 0)
            with self.assertRaisesRegex(KeyError, "nothing"):
                context.run([x], method="nothing")
            with self.assertRaises(KeyError):
                context.output_bounds([x], method=3)
            with self.assertRaisesRegex(aotc.InvalidArgument, "1 inputs given; the model has 2"):
                context.run([x], method="above")

    def test_parts_of_states(self):
        model = self.load("counter")
        x = stored("counter", "in")[0]
        for forks in (False, True):
            first, second = model.context(forks=forks), model.context()
            first.run([x])
            total = first.state_read("total")
            second.states_fork(first)
            np.testing.assert_array_equal(second.state_read("total"), total)
            second.run([x])
            np.testing.assert_array_equal(first.state_read("total"), total)
            np.testing.assert_allclose(second.state_read("total"), 2 * total, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(first.state_read("total", part={0: slice(1, 3)}), total[1:3])
            np.testing.assert_array_equal(first.state_read("total", part={-1: 3}), total[3:])
            first.state_write("total", np.float32([7, 8]), part={0: slice(2, 4)})
            np.testing.assert_array_equal(first.state_read("total"), [*total[:2], 7, 8])
            first.states_copy({0: slice(0, 2)}, first, {0: slice(2, 4)})
            np.testing.assert_array_equal(first.state_read("total"), [7, 8, 7, 8])
            first.states_truncate(0, 3)
            np.testing.assert_array_equal(first.state_read("total"), [7, 8, 7, 0])
            with tempfile.TemporaryFile(buffering=0) as file:
                first.states_save(file, {0: slice(0, 2)})
                file.seek(0)
                second.state_reset()
                second.states_load(file.fileno(), {0: slice(1, 3)})
                np.testing.assert_array_equal(second.state_read("total"), [0, 7, 8, 0])
                file.seek(0)
                with self.assertRaisesRegex(aotc.ShapeMismatch, "same lengths"):
                    second.states_load(file, {0: slice(1, 4)})
                file.seek(0)
                file.write(100 * b"x")
                file.seek(0)
                with self.assertRaisesRegex(aotc.Damaged, "not states that"):
                    second.states_load(file)
            second.states_fork(first, {0: slice(0, 1)})
            np.testing.assert_array_equal(second.state_read("total"), [7, 0, 0, 0])
        with self.assertRaisesRegex(aotc.FileError, "descriptor") as caught:
            first.states_save(10**6)
        self.assertIsInstance(caught.exception, OSError)
        with self.assertRaisesRegex(aotc.ShapeMismatch, "4 elements"):
            first.state_read("total", part={0: slice(2, 6)})
        with self.assertRaises(aotc.InvalidArgument):
            first.states_fork(first)
        with self.assertRaises(TypeError):
            first.states_fork(7)
        with self.assertRaises(ValueError):
            first.state_read("total", part={0: slice(None, None, 2)})

    def test_errors(self):
        model = self.load("net")
        context = model.context()
        x = stored("net", "in")[0]
        name = model.inputs[0].name
        for inputs, kind, text in (
            ([x, x], aotc.InvalidArgument, "2 inputs given; the model has 1"),
            ({"zz": x}, KeyError, f"the input '{name}' is missing"),
            ({name: x, "zz": x}, KeyError, "no input 'zz'"),
            ([x.astype(np.float64)], aotc.InvalidArgument, "float64.*must be float32"),
            ([x[:, :3]], aotc.ShapeMismatch, name),
            ([np.zeros((65, 16), np.float32)], aotc.ShapeMismatch, "64"),
            ([x[0]], aotc.ShapeMismatch, "rank"),
            ([[1.0, 2.0]], TypeError, "expected an array"),
            ([np.zeros((5, 16), ">f4")], aotc.InvalidArgument, "element type"),
            ([np.array(["a"])], aotc.InvalidArgument, "element type"),
        ):
            with self.assertRaisesRegex(kind, text):
                context.run(inputs)
        for outputs in ([np.empty((5, 5), np.float32)], [np.empty((5, 4), np.float64)], [], [x]):
            with self.assertRaises(ValueError):
                context.run([x], outputs)
        with self.assertRaisesRegex(aotc.IndexOutOfRange, "index") as caught:
            self.load("lookup").context().run(np.array([10]))
        self.assertEqual(caught.exception.status, 9)
        self.assertIsInstance(caught.exception, (aotc.Error, IndexError))
        with self.assertRaises(aotc.NotFound):
            aotc.load(MODELS / "none.so")
        with self.assertRaises(aotc.Incompatible):
            aotc.load(sys.executable)
        with self.assertRaises(aotc.Error):
            aotc.load(MODELS / "net.so", "cuda")
        with self.assertRaisesRegex(ValueError, "expected 'cpu'"):
            aotc.load(MODELS / "net.so", "tpu")
        cut = MODELS / "cut.so"
        cut.write_bytes((MODELS / "net.so").read_bytes()[:-5000])
        with self.assertRaises(aotc.Damaged):
            aotc.load(cut)
        context.close()
        context.close()
        with self.assertRaisesRegex(aotc.WrongState, "closed"):
            context.run([x])

    def test_threads(self):
        model = self.load("net")
        wrong = []

        def work(seed):
            context = model.context(threads=1 + seed % 2)
            generator = np.random.default_rng(seed)
            for _ in range(200):
                x = generator.normal(size=(int(generator.integers(1, 65)), 16)).astype(np.float32)
                whole = context.run(x)[0]
                if not np.allclose(whole[-1:], context.run(x[-1:])[0], rtol=1e-5, atol=1e-5):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertEqual(wrong, [])

    def test_the_gil_is_released(self):
        context = self.load("slow").context()
        x, out = stored("slow", "in"), [np.empty((384, 384), np.float32)]
        context.run(x, out)
        for _ in range(20):  # other processes of the machine may keep this one waiting
            ticks, done = [], threading.Event()

            def tick():
                while not done.is_set():
                    ticks.append(time.perf_counter())

            thread = threading.Thread(target=tick)
            thread.start()
            while not ticks:
                pass
            begin = time.perf_counter()
            context.run(x, out)
            end = time.perf_counter()
            done.set()
            thread.join()
            if sum(begin < t < end for t in ticks) > 100:
                return
        self.fail("no other thread of Python ran during a run")

    def test_one_context_of_two_threads(self):
        context = self.load("slow").context()
        x = stored("slow", "in")
        statuses = []

        def work():
            for _ in range(30):
                try:
                    context.run(x)
                    statuses.append(0)
                except aotc.WrongState as e:
                    statuses.append(e.status)
                try:
                    context.close() if len(statuses) > 40 else None
                except aotc.WrongState:
                    pass

        threads = [threading.Thread(target=work) for _ in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertTrue(set(statuses) <= {0, 6})
        self.assertIn(0, statuses)

    def test_memory_is_flat(self):
        def resident():
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        context, x = self.load("mixed").context(), stored("mixed", "in")
        bad = [x[0], x[1], x[2].astype(np.int64)]

        def some():
            for _ in range(5000):
                context.run(x)
                with self.assertRaises(aotc.InvalidArgument):
                    context.run(bad)
                context.run([np.asfortranarray(x[0]), x[1], x[2]])

        some()
        before = resident()
        some()
        self.assertLess(resident() - before, 1 << 20)

    def test_models_come_and_go(self):
        x = stored("net", "in")
        for _ in range(50):
            out = self.load("net").context().run(x)
        self.check(out, stored("net", "out"))

    def test_bench_and_what_a_call_costs(self):
        context = self.load("net").context()
        x, out = (stored("net", "in")[0][:1].copy(),), (np.empty((1, 4), np.float32),)
        timing = context.bench(x, out, seconds=0.2)
        self.assertTrue(0 < timing.min_us <= timing.p50_us <= timing.p90_us <= timing.p99_us)
        self.assertGreaterEqual(timing.runs, 10)

        def best(call, runs=2000):
            least = float("inf")
            for _ in range(30):
                begin = time.perf_counter_ns()
                for _ in range(runs):
                    call()
                least = min(least, (time.perf_counter_ns() - begin) / runs / 1e3)
            return least

        inside = min(context._time(x, out, 2000)[k] for k in range(2000)) / 1e3
        cost = best(lambda: context.run(x, out)) - inside
        print(f"a call: {cost:.2f} us above C ({inside:.2f} us)", file=sys.stderr)  # told, not judged: machines are shared

    def test_profile(self):
        context = self.load("net").context(profile=True)
        context.run(stored("net", "in"))
        steps = context.profile()
        self.assertGreater(len(steps), 0)
        self.assertTrue(all(s.ns > 0 and s.label for s in steps))
        with self.assertRaises(aotc.WrongState):
            self.load("net").context().profile()
        info = context.info
        self.assertEqual(info.threads, 1)


unittest.main()
