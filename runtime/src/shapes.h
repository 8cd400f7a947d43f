#pragma once
// From the shapes of the caller's inputs to symbol values, a variant, and the shapes of everything at the interface.
#include "model.h"

namespace aotc::rt {

/// INVALID_ARGUMENT where the method has another number of outputs.
aotc_status check_output_count(const Method& method, int32_t n_out);

/// Reads the symbols from the inputs' shapes. Checks count, dtype, rank, device and reserved fields of each input, and that each symbol
/// comes out whole; not yet its range.
aotc_status read_symbols(const Method& method, const aotc_tensor* in, int32_t n, int64_t* symbols);

/// Ranges and guards; *variant is the first that takes the values.
aotc_status pick_variant(const Method& method, const int64_t* symbols, uint32_t* variant);

/// Dimensions of all inputs, then all outputs (method.n_io_dims), and the bytes of each dense tensor.
aotc_status eval_interface(const Method& method, const int64_t* symbols, int64_t* dims, uint64_t* bytes);

/// The inputs' dimensions against those of eval_interface. symbols: for the message.
aotc_status check_dims(const Method& method, const aotc_tensor* in, const int64_t* dims, const int64_t* symbols);

/// data, alignment, strides and byte size of a tensor whose dtype and shape are right, and which must be dense. `what`: "output".
aotc_status check_data(const char* what, const aotc_io_desc& io, const aotc_tensor& t, uint64_t bytes);
/// The same of an input, which may have strides in host memory. bytes: of a dense tensor of its shape.
aotc_status check_input(const aotc_io_desc& io, const aotc_tensor& t, uint64_t bytes);

/// dtype, rank, device, reserved fields and shape pointer. `device` is the model's.
aotc_status check_kind(const char* what, const char* name, uint32_t dtype, int32_t rank, int32_t device, const aotc_tensor& t);

/// outputs: kind, shape, data, and that none overlaps another output or an input other than the one that it is the new content of.
aotc_status check_outputs(const Method& method, const aotc_tensor* in, const aotc_tensor* out, int32_t n_out, const int64_t* dims,
                          const uint64_t* bytes);

}  // namespace aotc::rt
