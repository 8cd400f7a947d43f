package aotc

// #include <time.h>
// #include "call.h"
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// ContextOptions: Threads of its own, the calling one included (0: that alone; -1: as many as it may use); Flags: AOTC_CONTEXT_*.
type ContextOptions struct {
	Threads int
	Flags   uint32
}

// Context is workspace, states and threads of one stream of runs: one goroutine at a time uses it; a second gets WrongState.
type Context struct {
	handle  *handle
	context *C.aotc_context
	mutex   sync.Mutex // held while C is in it
}

// Context makes one of the model.
func (m *Model) Context(o ContextOptions) (*Context, error) {
	defer runtime.KeepAlive(m)
	if !m.hold() {
		return nil, errClosed
	}
	var t text
	c := &Context{handle: m.handle}
	err := t.err(C.context_create(m.handle.lib.api, m.handle.model, C.int32_t(o.Threads), C.uint32_t(o.Flags), &c.context, t.at()))
	if err != nil {
		m.handle.release()
		return nil, err
	}
	runtime.SetFinalizer(c, (*Context).Close)
	return c, nil
}

// Close frees the context, once its run is done. A second call does nothing.
func (c *Context) Close() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.context == nil {
		return
	}
	runtime.SetFinalizer(c, nil)
	C.context_destroy(c.handle.lib.api, c.context)
	c.context = nil
	c.handle.release()
}

// use calls f with the context to itself.
func (c *Context) use(f func(api *C.aotc_api) error) error {
	if !c.mutex.TryLock() {
		return &Error{WrongState, "the context is in use by another goroutine"}
	}
	defer c.mutex.Unlock()
	if c.context == nil {
		return errClosed
	}
	return f(c.handle.lib.api)
}

// Cancel is a flag that any goroutine sets to end the runs that were given it. It lies in C's memory until it is collected.
type Cancel struct{ flag *int32 }

// NewCancel makes one that is not set.
func NewCancel() *Cancel {
	c := &Cancel{(*int32)(C.calloc(1, 4))}
	runtime.SetFinalizer(c, func(c *Cancel) { C.free(unsafe.Pointer(c.flag)) })
	return c
}

// Set ends the runs.
func (c *Cancel) Set() { atomic.StoreInt32(c.flag, 1); runtime.KeepAlive(c) }

// RunOptions: Method nil: the first; Timeout 0: none. Errors of runs that were ended: Cancelled, DeadlineExceeded.
type RunOptions struct {
	Method  *Method
	Timeout time.Duration
	Cancel  *Cancel
}

// Run runs the first method.
func (c *Context) Run(inputs, outputs []Tensor) error {
	return c.RunWith(RunOptions{}, inputs, outputs)
}

// RunWith runs a method on at most 32 tensors. Outputs have the shapes that OutputBounds gives, and overlap nothing.
func (c *Context) RunWith(o RunOptions, inputs, outputs []Tensor) error {
	all := append(append(make([]Tensor, 0, len(inputs)+len(outputs)), inputs...), outputs...)
	if len(all) > C.SLICES {
		return &Error{InvalidArgument, fmt.Sprintf("a run takes %d slices at most, not %d", C.SLICES, len(all))}
	}
	tensors, err := inC(all...)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(tensors))
	var s [C.SLICES]unsafe.Pointer
	for i, t := range all {
		s[i] = t.data
	}
	var method C.int32_t
	if o.Method != nil {
		method = C.int32_t(o.Method.Index)
	}
	timeout := C.uint64_t(o.Timeout)
	if o.Timeout < 0 {
		timeout = 1
	}
	var cancel *C.int32_t
	if o.Cancel != nil {
		cancel = (*C.int32_t)(o.Cancel.flag)
	}
	var t text
	err = c.use(func(api *C.aotc_api) error {
		return t.err(C.run_slices(api, c.context, method, tensors, C.int32_t(len(inputs)), C.int32_t(len(outputs)), timeout, cancel, t.at(),
			s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14], s[15],
			s[16], s[17], s[18], s[19], s[20], s[21], s[22], s[23], s[24], s[25], s[26], s[27], s[28], s[29], s[30], s[31]))
	})
	runtime.KeepAlive(o.Cancel)
	return err
}

// OutputShapes is the name of before of OutputBounds.
//
// Deprecated: use OutputBounds.
func (c *Context) OutputShapes(m *Method, inputs []Tensor) ([][]int64, error) {
	return c.OutputBounds(m, inputs)
}

// OutputBounds are the shapes of the buffers of a method's outputs for inputs of these shapes; m nil: the first method.
func (c *Context) OutputBounds(m *Method, inputs []Tensor) (shapes [][]int64, err error) {
	if m == nil {
		m = &Method{}
		if m.Outputs, err = c.outputs(); err != nil {
			return nil, err
		}
	}
	tensors, err := inC(inputs...)
	if err != nil {
		return nil, err
	}
	defer C.free(unsafe.Pointer(tensors))
	n, dims := len(m.Outputs), 0
	for _, o := range m.Outputs {
		dims += len(o.Dims)
	}
	block := C.calloc(C.size_t(n+dims+1), 8)
	defer C.free(block)
	at := unsafe.Add(block, n*8)
	for i, o := range m.Outputs {
		*(*unsafe.Pointer)(unsafe.Add(block, i*8)) = at
		shapes = append(shapes, unsafe.Slice((*int64)(at), len(o.Dims)))
		at = unsafe.Add(at, len(o.Dims)*8)
	}
	var t text
	err = c.use(func(api *C.aotc_api) error {
		return t.err(C.output_bounds(api, c.context, C.int32_t(m.Index), tensors, C.int32_t(len(inputs)), (**C.int64_t)(block), C.int32_t(n), t.at()))
	})
	if err != nil {
		return nil, err
	}
	for i, s := range shapes {
		shapes[i] = append([]int64(nil), s...)
	}
	return shapes, nil
}

func (c *Context) outputs() (infos []TensorInfo, err error) {
	err = c.use(func(api *C.aotc_api) error {
		var t text
		var n C.int32_t
		if err := t.err(C.io_count(api, c.handle.model, C.AOTC_OUTPUT, &n, t.at())); err != nil {
			return err
		}
		var err error
		infos, err = c.handle.infos(0, C.AOTC_OUTPUT, int(n))
		return err
	})
	return
}

// ResetStates: all of them, or the one of that name, have their initial content again.
func (c *Context) ResetStates(name string) error {
	var text text
	return c.named(name, func(api *C.aotc_api, s *C.char) error { return text.err(C.state_reset(api, c.context, s, text.at())) })
}

// ReadState copies a whole state to a tensor.
func (c *Context) ReadState(name string, to Tensor) error { return c.copyState(name, to, 0) }

// WriteState copies a whole state from a tensor.
func (c *Context) WriteState(name string, from Tensor) error { return c.copyState(name, from, 1) }

func (c *Context) copyState(name string, tensor Tensor, write C.int32_t) error {
	raw, err := inC(tensor)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(raw))
	var text text
	return c.named(name, func(api *C.aotc_api, s *C.char) error {
		return text.err(C.state_copy(api, c.context, s, raw, tensor.data, write, text.at()))
	})
}

// named calls f with a name in C's memory; NULL where it is empty.
func (c *Context) named(name string, f func(*C.aotc_api, *C.char) error) error {
	var s *C.char
	if name != "" {
		s = C.CString(name)
		defer C.free(unsafe.Pointer(s))
	}
	return c.use(func(api *C.aotc_api) error { return f(api, s) })
}
