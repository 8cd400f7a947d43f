#include "npy.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/file.h"

namespace aotc::cli {
namespace {

struct NpyType {
  const char* code;
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"b1", DType::boolean}, {"u1", DType::u8},   {"i1", DType::i8},  {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64},
    {"f2", DType::f16},     {"u2", DType::bf16}, {"f4", DType::f32}, {"f8", DType::f64}, {"c8", DType::c64}, {"c16", DType::c128},
};

[[noreturn]] void bad(const std::string& path, const std::string& what) { throw Diagnostic(Loc{path, "", "", ""}, what); }

void to_row_major(HostTensor& t) {
  const int64_t bytes = dtype_bytes(t.dtype), n = t.elems();
  std::vector<std::byte> out(t.bytes.size());
  std::vector<int64_t> i(t.dims.size(), 0);
  for (int64_t dst = 0; dst < n; ++dst) {
    int64_t src = 0, stride = 1;
    for (size_t d = 0; d < t.dims.size(); ++d) src += i[d] * stride, stride *= t.dims[d];
    std::memcpy(&out[dst * bytes], &t.bytes[src * bytes], bytes);
    for (size_t d = t.dims.size(); d-- > 0;) {
      if (++i[d] < t.dims[d]) break;
      i[d] = 0;
    }
  }
  t.bytes = std::move(out);
}

}  // namespace

HostTensor read_npy(const std::string& path) {
  require_file(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be opened");
  const std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0) bad(path, "is not a .npy file");
  const int major = file[6];
  if (major < 1 || major > 3) bad(path, "has .npy version " + std::to_string(major) + "; 1 to 3 are supported");
  const size_t length_bytes = major == 1 ? 2 : 4;
  size_t length = 0;
  if (file.size() < 8 + length_bytes) bad(path, "is cut off in its header");
  for (size_t k = 0; k < length_bytes; ++k) length |= static_cast<size_t>(static_cast<unsigned char>(file[8 + k])) << (8 * k);
  const size_t start = 8 + length_bytes + length;
  if (start > file.size()) bad(path, "is cut off in its header");
  const std::string header(file.begin() + 8 + length_bytes, file.begin() + start);

  HostTensor t;
  const size_t colon = header.find(':', header.find("'descr'"));
  if (colon == std::string::npos) bad(path, "the .npy header has no 'descr'");
  const size_t open = header.find('\'', colon), close = open == std::string::npos ? open : header.find('\'', open + 1);
  if (close == std::string::npos) bad(path, "the .npy header's 'descr' is not one plain type");
  const std::string descr = header.substr(open + 1, close - open - 1);
  if (descr.size() < 2) bad(path, "has dtype '" + descr + "'");
  const NpyType* type = nullptr;
  for (const NpyType& row : kTypes)
    if (descr.substr(1) == row.code) type = &row;
  if (!type) bad(path, "has dtype '" + descr + "', which no model input has");
  t.dtype = type->dtype;

  const size_t paren = header.find('(', header.find("'shape'")), end = paren == std::string::npos ? paren : header.find(')', paren);
  if (end == std::string::npos) bad(path, "the .npy header has no 'shape'");
  const std::string dims = header.substr(paren + 1, end - paren - 1);
  for (size_t p = 0; p < dims.size();) {
    if (!std::isdigit(static_cast<unsigned char>(dims[p]))) {
      ++p;
      continue;
    }
    size_t used = 0;
    try {
      t.dims.push_back(std::stoll(dims.substr(p), &used));
    } catch (const std::exception&) { bad(path, "has a dimension that does not fit 63 bits"); }
    p += used;
  }
  int64_t bytes = dtype_bytes(t.dtype);
  for (int64_t d : t.dims)
    if (__builtin_mul_overflow(bytes, d, &bytes)) bad(path, "has a shape whose size does not fit 63 bits");
  if (static_cast<size_t>(bytes) != file.size() - start)
    bad(path, fmt::format("holds {} bytes of data; its shape needs {}", file.size() - start, bytes));
  t.bytes.resize(bytes);
  if (bytes) std::memcpy(t.bytes.data(), file.data() + start, bytes);
  if (descr[0] == '>') {
    const size_t width = is_complex(t.dtype) ? dtype_bytes(t.dtype) / 2 : dtype_bytes(t.dtype);
    for (size_t k = 0; k + width <= t.bytes.size(); k += width) std::reverse(t.bytes.begin() + k, t.bytes.begin() + k + width);
  }
  if (header.find("'fortran_order': True") != std::string::npos) to_row_major(t);
  return t;
}

void write_npy(const std::string& path, const HostTensor& t) {
  std::string code = "u1";
  for (const NpyType& row : kTypes)
    if (row.dtype == t.dtype) code = row.code;
  std::string shape;
  for (int64_t d : t.dims) shape += std::to_string(d) + ", ";
  std::string header =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}", code.back() == '1' ? "|" : "<", code, shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  require_place_for_file(path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  const uint16_t length = static_cast<uint16_t>(header.size());
  out.write("\x93NUMPY\x01\x00", 8);
  out.write(reinterpret_cast<const char*>(&length), 2);
  out << header;
  out.write(reinterpret_cast<const char*>(t.bytes.data()), static_cast<std::streamsize>(t.bytes.size()));
  if (!out.flush()) throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written");
}

}  // namespace aotc::cli
