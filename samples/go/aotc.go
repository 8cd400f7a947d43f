// Package aotc runs artifacts of aotc: a model is opened once and shared, each goroutine that runs has a context, runs read and write slices
// where they lie.
//
//	model, err := aotc.Open("model.so")
//	context, err := model.Context(aotc.ContextOptions{})
//	err = context.Run([]aotc.Tensor{aotc.Of(x, 8, 1024)}, []aotc.Tensor{aotc.Of(y, 8, 10)})
//
// Models and contexts are freed when nothing refers to them any more, or by Close.
package aotc

// #cgo CFLAGS: -std=gnu11 -O2 -I${SRCDIR}/../../runtime/include
// #cgo LDFLAGS: -ldl
// #include <time.h>
// #include "call.h"
import "C"

import (
	"errors"
	"runtime"
	"sync"
	"unsafe"
)

// Status is why a call failed, as aotc.h says of each.
type Status int32

const (
	InvalidArgument  Status = C.AOTC_STATUS_INVALID_ARGUMENT
	ShapeMismatch    Status = C.AOTC_STATUS_SHAPE_MISMATCH
	Incompatible     Status = C.AOTC_STATUS_INCOMPATIBLE
	NotFound         Status = C.AOTC_STATUS_NOT_FOUND
	OutOfMemory      Status = C.AOTC_STATUS_OUT_OF_MEMORY
	WrongState       Status = C.AOTC_STATUS_WRONG_STATE
	Device           Status = C.AOTC_STATUS_DEVICE
	Internal         Status = C.AOTC_STATUS_INTERNAL
	IndexOutOfRange  Status = C.AOTC_STATUS_INDEX_OUT_OF_RANGE
	Damaged          Status = C.AOTC_STATUS_DAMAGED
	DeviceLost       Status = C.AOTC_STATUS_DEVICE_LOST
	AssertionFailed  Status = C.AOTC_STATUS_ASSERTION_FAILED
	Cancelled        Status = C.AOTC_STATUS_CANCELLED
	DeadlineExceeded Status = C.AOTC_STATUS_DEADLINE_EXCEEDED
	IO               Status = C.AOTC_STATUS_IO
)

// Error is a status and the artifact's sentence about it. errors.Is(err, aotc.ShapeMismatch) asks for the status.
type Error struct {
	Status  Status
	Message string
}

func (e *Error) Error() string        { return e.Message }
func (e *Error) Is(target error) bool { s, ok := target.(Status); return ok && s == e.Status }

// Error makes a status a target of errors.Is.
func (s Status) Error() string {
	return [...]string{"success", "invalid argument", "shape mismatch", "incompatible", "not found", "out of memory", "wrong state", "device",
		"internal", "index out of range", "damaged", "device lost", "assertion failed", "cancelled", "deadline exceeded", "io"}[s&15]
}

var errClosed = &Error{WrongState, "it was closed"}

// text takes the message of a call.
type text [C.TEXT]C.char

func (t *text) at() *C.char { return &t[0] }
func (t *text) err(status C.aotc_status) error {
	if status == C.AOTC_STATUS_OK {
		return nil
	}
	return &Error{Status(status), C.GoString(t.at())}
}

// handle is a model in C's memory; it goes when the last of its holders, the model and its contexts, has gone.
type handle struct {
	lib     *C.aotc_library
	model   *C.aotc_model
	mutex   sync.Mutex
	holders int
}

func (h *handle) release() {
	h.mutex.Lock()
	h.holders--
	last := h.holders == 0
	h.mutex.Unlock()
	if last {
		C.close_library(h.lib, h.model)
		C.free(unsafe.Pointer(h.lib))
	}
}

// Model is a loaded artifact; immutable, for any number of goroutines at once.
type Model struct {
	handle *handle
	closed bool // with the handle's mutex
}

// hold takes the model's handle; false where it was closed.
func (m *Model) hold() bool {
	m.handle.mutex.Lock()
	defer m.handle.mutex.Unlock()
	if !m.closed {
		m.handle.holders++
	}
	return !m.closed
}

// Open checks the file, loads it, asks whether this machine can run it, and makes the model on the best device that it has code for.
func Open(path string) (*Model, error) {
	c := C.CString(path)
	defer C.free(unsafe.Pointer(c))
	return opened(func(lib *C.aotc_library, model **C.aotc_model, t *text) C.aotc_status {
		return C.open_path(c, lib, model, t.at())
	})
}

// OpenMemory is Open of the bytes of an artifact's file. They are copied; nothing is written to any file system.
func OpenMemory(data []byte) (*Model, error) {
	if len(data) == 0 {
		return nil, &Error{Damaged, "the artifact in memory is empty"}
	}
	return opened(func(lib *C.aotc_library, model **C.aotc_model, t *text) C.aotc_status {
		return C.open_memory(unsafe.Pointer(&data[0]), C.uint64_t(len(data)), lib, model, t.at())
	})
}

func opened(open func(*C.aotc_library, **C.aotc_model, *text) C.aotc_status) (*Model, error) {
	var t text
	lib := (*C.aotc_library)(C.calloc(1, C.sizeof_aotc_library))
	h := &handle{lib: lib, holders: 1}
	if err := t.err(open(lib, &h.model, &t)); err != nil {
		h.release()
		return nil, err
	}
	m := &Model{handle: h}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// Close ends the use of the model; its contexts may go on. A second call does nothing.
func (m *Model) Close() {
	m.handle.mutex.Lock()
	again := m.closed
	m.closed = true
	m.handle.mutex.Unlock()
	if !again {
		runtime.SetFinalizer(m, nil)
		m.handle.release()
	}
}

// with calls f with the model held.
func (m *Model) with(f func(h *handle) error) error {
	defer runtime.KeepAlive(m)
	if !m.hold() {
		return errClosed
	}
	defer m.handle.release()
	return f(m.handle)
}

// Metadata is the artifact's description in JSON (schemas/metadata.schema.json).
func (m *Model) Metadata() (s string, err error) {
	err = m.with(func(h *handle) error { s = C.GoString(C.metadata(h.lib.api)); return nil })
	return
}

// Dim is a size of a tensor: Value where it is fixed, else -1 and what it follows from ("batch", "2*seq + 1"), from Min to Max.
type Dim struct {
	Value, Min, Max int64
	Symbol          string
}

// TensorInfo is what an input, output or state is.
type TensorInfo struct {
	Name  string
	Dtype uint32
	Dims  []Dim
	Alias int // of an output that is the new content of an input: which; else -1
}

// Method is one of the programs of an artifact.
type Method struct {
	Name            string
	Index           int
	Inputs, Outputs []TensorInfo
}

// Methods are those of the artifact, at least one. Calls that take none mean the first.
func (m *Model) Methods() (methods []Method, err error) {
	err = m.with(func(h *handle) error {
		var t text
		var n C.int32_t
		if err := t.err(C.method_count(h.lib.api, h.model, &n, t.at())); err != nil {
			return err
		}
		for i := C.int32_t(0); i < n; i++ {
			var raw C.aotc_method_info
			if err := t.err(C.method_get(h.lib.api, h.model, i, &raw, t.at())); err != nil {
				return err
			}
			inputs, err := h.infos(i, C.AOTC_INPUT, int(raw.n_inputs))
			if err != nil {
				return err
			}
			outputs, err := h.infos(i, C.AOTC_OUTPUT, int(raw.n_outputs))
			if err != nil {
				return err
			}
			methods = append(methods, Method{C.GoString(raw.name), int(i), inputs, outputs})
		}
		return nil
	})
	return
}

// States are the buffers that outlive a run, one set a context.
func (m *Model) States() (states []TensorInfo, err error) {
	err = m.with(func(h *handle) error {
		var t text
		var n C.int32_t
		if err := t.err(C.io_count(h.lib.api, h.model, C.AOTC_STATE, &n, t.at())); err != nil {
			return err
		}
		var err error
		states, err = h.infos(0, C.AOTC_STATE, int(n))
		return err
	})
	return
}

func (h *handle) infos(method C.int32_t, kind C.int32_t, n int) ([]TensorInfo, error) {
	var t text
	out := make([]TensorInfo, n)
	for i := range out {
		var raw C.aotc_io_info
		if err := t.err(C.io_get(h.lib.api, h.model, method, kind, C.int32_t(i), &raw, t.at())); err != nil {
			return nil, err
		}
		out[i] = TensorInfo{C.GoString(raw.name), uint32(raw.dtype), make([]Dim, raw.rank), int(raw.alias_input)}
		for d := range out[i].Dims {
			dim := (*C.aotc_dim)(unsafe.Add(unsafe.Pointer(raw.dims), d*C.sizeof_aotc_dim))
			out[i].Dims[d] = Dim{int64(dim.value), int64(dim.min), int64(dim.max), C.GoString(dim.symbol)}
		}
	}
	return out, nil
}

// StatusOf is the status of an error of this package, 0 of any other.
func StatusOf(err error) Status {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}
