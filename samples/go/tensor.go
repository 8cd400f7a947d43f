package aotc

// #include <time.h>
// #include "call.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Elements of the types that Go has not.
type (
	F16    uint16 // the bits of a float16
	BF16   uint16 // the bits of a bfloat16
	F8E4M3 uint8  // the bits of a float8_e4m3fn
	F8E5M2 uint8  // the bits of a float8_e5m2
)

// Element is what tensors hold; bool has one byte, as torch's.
type Element interface {
	bool | uint8 | int8 | int16 | int32 | int64 | F16 | BF16 | float32 | float64 | complex64 | complex128 | F8E4M3 | F8E5M2
}

func dtypeOf[T Element]() uint32 {
	var x T
	switch any(x).(type) {
	case bool:
		return C.AOTC_DTYPE_BOOL
	case uint8:
		return C.AOTC_DTYPE_U8
	case int8:
		return C.AOTC_DTYPE_I8
	case int16:
		return C.AOTC_DTYPE_I16
	case int32:
		return C.AOTC_DTYPE_I32
	case int64:
		return C.AOTC_DTYPE_I64
	case F16:
		return C.AOTC_DTYPE_F16
	case BF16:
		return C.AOTC_DTYPE_BF16
	case float32:
		return C.AOTC_DTYPE_F32
	case float64:
		return C.AOTC_DTYPE_F64
	case complex64:
		return C.AOTC_DTYPE_C64
	case complex128:
		return C.AOTC_DTYPE_C128
	case F8E4M3:
		return C.AOTC_DTYPE_F8E4M3FN
	default:
		return C.AOTC_DTYPE_F8E5M2
	}
}

// Tensor is a slice with a shape; dense, row-major. Runs read and write the slice where it lies.
type Tensor struct {
	data     unsafe.Pointer
	elements int
	bytes    uint64
	shape    []int64
	dtype    uint32
}

// Of makes a tensor of a slice, which it keeps.
func Of[T Element](data []T, shape ...int64) Tensor {
	var x T
	t := Tensor{elements: len(data), bytes: uint64(len(data)) * uint64(unsafe.Sizeof(x)), shape: shape, dtype: dtypeOf[T]()}
	if len(data) > 0 {
		t.data = unsafe.Pointer(&data[0])
	}
	return t
}

// Shape is the tensor's; not a copy.
func (t Tensor) Shape() []int64 { return t.shape }

func (t Tensor) check() error {
	n := int64(1)
	for _, d := range t.shape {
		if d < 0 || (d > 0 && n > (1<<62)/d) {
			return &Error{InvalidArgument, fmt.Sprintf("%v is no shape", t.shape)}
		}
		n *= d
	}
	if n != int64(t.elements) {
		return &Error{InvalidArgument, fmt.Sprintf("a tensor of shape %v has %d elements, its slice %d", t.shape, n, t.elements)}
	}
	return nil
}

// inC are tensors in C's memory, as many as were asked for, with their shapes behind them; data are NULL. The caller frees it.
func inC(tensors ...Tensor) (*C.aotc_tensor, error) {
	dims := 0
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return nil, err
		}
		dims += len(t.shape)
	}
	n := len(tensors)
	block := C.calloc(C.size_t(n*C.sizeof_aotc_tensor+dims*8+1), 1)
	shape := unsafe.Add(block, n*C.sizeof_aotc_tensor)
	for i, t := range tensors {
		raw := (*C.aotc_tensor)(unsafe.Add(block, i*C.sizeof_aotc_tensor))
		raw.shape = (*C.int64_t)(shape)
		for _, d := range t.shape {
			*(*int64)(shape) = d
			shape = unsafe.Add(shape, 8)
		}
		raw.byte_size = C.uint64_t(t.bytes)
		raw.rank = C.int32_t(len(t.shape))
		raw.dtype = C.uint32_t(t.dtype)
		raw.device = C.AOTC_DEVICE_HOST
	}
	return (*C.aotc_tensor)(block), nil
}
