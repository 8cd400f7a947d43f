#include "import/pickle.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "base/diagnostic.h"
#include "base/words.h"
#include "import/zip.h"
#include "import/zip_writer.h"

namespace aotc::import {
namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxSteps = 64 << 20;

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType kStorages[] = {
    {"torch.FloatStorage", DType::f32},     {"torch.DoubleStorage", DType::f64},       {"torch.HalfStorage", DType::f16},
    {"torch.BFloat16Storage", DType::bf16}, {"torch.LongStorage", DType::i64},         {"torch.IntStorage", DType::i32},
    {"torch.ShortStorage", DType::i16},     {"torch.CharStorage", DType::i8},          {"torch.ByteStorage", DType::u8},
    {"torch.BoolStorage", DType::boolean},  {"torch.ComplexFloatStorage", DType::c64}, {"torch.ComplexDoubleStorage", DType::c128},
};
constexpr std::string_view kOrderedDict = "collections.OrderedDict", kTensor = "torch._utils._rebuild_tensor_v2",
                           kParameter = "torch._utils._rebuild_parameter", kSize = "torch.Size";
/// What builds tensors of classes of their own; the class is the next name.
constexpr std::string_view kOfClass = "torch._tensor._rebuild_from_type_v2 torch._utils._rebuild_wrapper_subclass";

class Unpickler {
 public:
  Unpickler(Bytes code, const std::string& what, std::function<Bytes(const std::string&)> storage)
      : code_(code), what_(what), storage_(std::move(storage)) {}

  PickleValue run() {
    for (size_t steps = 0;; ++steps) {
      if (steps > kMaxSteps) throw fail("too long");
      const uint8_t op = u8();
      if (op == '.') break;
      step(op);
    }
    if (stack_.size() != 1 || !marks_.empty()) throw fail("does not end with one value");
    return std::move(stack_[0]);
  }

 private:
  using V = PickleValue;

  void step(uint8_t op) {
    switch (op) {
      case 0x80: u8(); break;     // PROTO
      case 0x95: take(8); break;  // FRAME
      case '(': marks_.push_back(stack_.size()); break;
      case 'N': push({}); break;
      case 0x88: push({true}); break;
      case 0x89: push({false}); break;
      case 'K': push({static_cast<int64_t>(u8())}); break;
      case 'M': push({static_cast<int64_t>(integer<uint16_t>())}); break;
      case 'J': push({static_cast<int64_t>(integer<int32_t>())}); break;
      case 0x8a: push({long1()}); break;
      case 'G': push({real()}); break;
      case 'X': push({string(integer<uint32_t>())}); break;
      case 0x8c: push({string(u8())}); break;
      case 0x8d: push({string(integer<uint64_t>())}); break;
      case '}': push({std::make_shared<V::Dict>()}); break;
      case ']': push({std::make_shared<V::Sequence>()}); break;
      case ')': push_sequence(true, {}); break;
      case 't': push_sequence(true, pop_marked()); break;
      case 'l': push_sequence(false, pop_marked()); break;
      case 0x85: push_sequence(true, pop_n(1)); break;
      case 0x86: push_sequence(true, pop_n(2)); break;
      case 0x87: push_sequence(true, pop_n(3)); break;
      case 'a': append(pop_n(1)); break;
      case 'e': append(pop_marked()); break;
      case 's': set_items(pop_n(2)); break;
      case 'u': set_items(pop_marked()); break;
      case 'd': {
        std::vector<V> items = pop_marked();
        push({std::make_shared<V::Dict>()});
        set_items(std::move(items));
        break;
      }
      case 'q': put(u8()); break;
      case 'r': put(integer<uint32_t>()); break;
      case 0x94: put(memo_.size()); break;
      case 'h': get(u8()); break;
      case 'j': get(integer<uint32_t>()); break;
      case 'c': {
        const std::string module = line();
        push_name(module + "." + line());
        break;
      }
      case 0x93: {
        std::vector<V> names = pop_n(2);
        const auto *module = names[0].as<std::string>(), *name = names[1].as<std::string>();
        if (!module || !name) throw fail("a name that is not a text");
        push_name(*module + "." + *name);
        break;
      }
      case 'Q': persistent(); break;
      case 'R': reduce(); break;
      case 'b': build(); break;
      default: throw fail(fmt::format("opcode 0x{:02x} is not allowed", op));
    }
  }

  // Names and what may be called.
  void push_name(const std::string& name) {
    const bool known = name == kOrderedDict || name == kTensor || name == kParameter || name == kSize ||
                       std::any_of(std::begin(kStorages), std::end(kStorages), [&](const StorageType& s) { return s.name == name; });
    const bool of_class = has_word(kOfClass, name);
    if (!known && !of_class && of_class_) throw subclass(name);
    if (!known && !of_class) throw fail(fmt::format("the name {} is not allowed", name));
    of_class_ = of_class_ || of_class;
    push({V::Name{name}});
  }
  void reduce() {
    std::vector<V> call = pop_n(2);
    const V::Name* f = call[0].as<V::Name>();
    const V::Sequence* args = call[1].sequence();
    if (!f || !args || !args->tuple) throw fail("a call of something that is not a name");
    if (f->text == kOrderedDict && args->items.empty()) return push({std::make_shared<V::Dict>()});
    if (f->text == kTensor) return push({tensor(args->items)});
    if (f->text == kParameter && !args->items.empty() && args->items[0].as<StoredTensor>()) return push(args->items[0]);
    if (f->text == kSize && args->items.size() == 1 && args->items[0].sequence()) return push(args->items[0]);
    throw fail(fmt::format("a call of {} with these arguments is not allowed", f->text));
  }
  /// ("storage", torch.FloatStorage, "0", "cpu", 16) → the whole storage as a tensor of one dimension.
  void persistent() {
    const V id = pop();
    const V::Sequence* s = id.sequence();
    if (!s || s->items.size() != 5) throw fail("a persistent id that is not a storage");
    const auto *kind = s->items[0].as<std::string>(), *key = s->items[2].as<std::string>();
    const V::Name* type = s->items[1].as<V::Name>();
    if (!kind || *kind != "storage" || !key || !type) throw fail("a persistent id that is not a storage");
    for (const StorageType& t : kStorages)
      if (t.name == type->text) return push({StoredTensor{.dtype = t.dtype, .storage = storage_(*key)}});
    throw fail(fmt::format("{} is not a storage", type->text));
  }
  StoredTensor tensor(const std::vector<V>& args) {
    if (args.size() < 4) throw fail("a tensor with too few arguments");
    const StoredTensor* storage = args[0].as<StoredTensor>();
    const int64_t* offset = args[1].as<int64_t>();
    if (!storage || !offset) throw fail("a tensor without storage or offset");
    StoredTensor t = *storage;
    t.offset = *offset;
    t.sizes = ints(args[2]);
    t.strides = ints(args[3]);
    return t;
  }
  std::vector<int64_t> ints(const V& v) {
    const V::Sequence* s = v.sequence();
    if (!s) throw fail("sizes that are not a tuple");
    std::vector<int64_t> out;
    for (const V& i : s->items) {
      const int64_t* n = i.as<int64_t>();
      if (!n) throw fail("a size that is not an integer");
      out.push_back(*n);
    }
    return out;
  }
  /// The state of an OrderedDict (its _metadata) says nothing about tensors.
  void build() {
    pop();
    if (stack_.empty() || !stack_.back().dict()) throw fail("a state for something other than a dictionary");
  }

  // Containers. Values are shared by reference, as in Python; a container that would hold itself is refused by the depth bound.
  void push_sequence(bool tuple, std::vector<V> items) {
    auto s = std::make_shared<V::Sequence>();
    s->tuple = tuple;
    V v{s};
    for (const V& i : items) deepen(v, i);
    s->items = std::move(items);
    push(std::move(v));
  }
  void append(std::vector<V> items) {
    V& top = peek();
    auto* s = std::get_if<std::shared_ptr<V::Sequence>>(&top.v);
    if (!s || (*s)->tuple) throw fail("an append to something other than a list");
    for (V& i : items) {
      deepen(top, i);
      (*s)->items.push_back(std::move(i));
    }
  }
  void set_items(std::vector<V> items) {
    V& top = peek();
    auto* d = std::get_if<std::shared_ptr<V::Dict>>(&top.v);
    if (!d || items.size() % 2) throw fail("items set in something other than a dictionary");
    for (size_t i = 0; i < items.size(); i += 2) {
      deepen(top, items[i + 1]);
      (*d)->items.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }
  /// Containers that were memoized before they grew are refused as elements: their depth is not known.
  void deepen(V& outer, const V& inner) {
    if (inner.sequence() && inner.sequence() == outer.sequence()) throw fail("a list that holds itself");
    if (inner.dict() && inner.dict() == outer.dict()) throw fail("a dictionary that holds itself");
    outer.depth = std::max(outer.depth, inner.depth + 1);
    if (outer.depth > kMaxDepth) throw fail(fmt::format("values nested deeper than {}", kMaxDepth));
  }

  void put(size_t i) {
    if (i != memo_.size() && !memo_.count(i) && memo_.size() > kMaxSteps) throw fail("too many memo entries");
    memo_[i] = peek();
  }
  void get(size_t i) {
    auto it = memo_.find(i);
    if (it == memo_.end()) throw fail("a memo entry that was never set");
    // Mutable containers come back as they are now; fetching one is only seen for tuples, texts, names and storages.
    if (it->second.dict() || (it->second.sequence() && !it->second.sequence()->tuple))
      throw fail("a list or dictionary used twice is not allowed");
    push(it->second);
  }

  // The stack and the code.
  void push(V v) { stack_.push_back(std::move(v)); }
  V& peek() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) throw fail("the stack is empty");
    return stack_.back();
  }
  V pop() {
    V v = std::move(peek());
    stack_.pop_back();
    return v;
  }
  std::vector<V> pop_n(size_t n) {
    std::vector<V> out;
    for (size_t i = 0; i < n; ++i) out.push_back(pop());
    std::reverse(out.begin(), out.end());
    return out;
  }
  std::vector<V> pop_marked() {
    if (marks_.empty()) throw fail("no mark on the stack");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    marks_.pop_back();
    std::vector<V> out(std::make_move_iterator(from), std::make_move_iterator(stack_.end()));
    stack_.erase(from, stack_.end());
    return out;
  }
  Bytes take(uint64_t n) {
    if (n > code_.size() - at_) throw fail("cut off");
    at_ += n;
    return code_.subspan(at_ - n, n);
  }
  uint8_t u8() { return std::to_integer<uint8_t>(take(1)[0]); }
  template <class T>
  T integer() {
    T v;
    std::memcpy(&v, take(sizeof(T)).data(), sizeof(T));
    return v;
  }
  int64_t long1() {
    const uint8_t n = u8();
    if (n > 8) throw fail("an integer of more than 64 bits");
    const Bytes b = take(n);
    uint64_t v = n && (std::to_integer<uint8_t>(b[n - 1u]) & 0x80) ? ~uint64_t{0} : 0;
    for (size_t i = n; i-- > 0;) v = (v << 8) | std::to_integer<uint8_t>(b[i]);
    return static_cast<int64_t>(v);
  }
  double real() {
    uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = (bits << 8) | u8();
    double d;
    std::memcpy(&d, &bits, 8);
    return d;
  }
  std::string string(uint64_t n) {
    const Bytes b = take(n);
    return {reinterpret_cast<const char*>(b.data()), b.size()};
  }
  std::string line() {
    std::string s;
    for (char c; (c = static_cast<char>(u8())) != '\n';) {
      if (s.size() > 256) throw fail("a name of more than 256 characters");
      s += c;
    }
    return s;
  }
  Diagnostic fail(std::string why) const {
    return Diagnostic(Loc{.file = what_}, fmt::format("pickle refused at byte {}: {}", at_, why))
        .note("only tensors in lists, tuples and dictionaries are read; no pickle is ever executed");
  }

  Diagnostic subclass(const std::string& name) const {
    return Diagnostic(Loc{.file = what_}, fmt::format("a tensor of the class {} is not read: only plain tensors are", name))
        .note(
            "torchao's quantize_ makes such tensors; in ep.run_decompositions() they are plain tensors and operators: "
            "torch.export.save(ep.run_decompositions(), ..)");
  }

  Bytes code_;
  const std::string& what_;
  std::function<Bytes(const std::string&)> storage_;
  size_t at_ = 0;
  std::vector<V> stack_;
  std::vector<size_t> marks_;
  std::map<size_t, V> memo_;
  bool of_class_ = false;  ///< a tensor of a class of its own is being built
};

}  // namespace

PickleValue read_torch_save(Bytes file, const std::string& what) {
  const Zip zip(file, what);
  std::string root;
  const ZipEntry* code = nullptr;
  for (const ZipEntry& e : zip.entries()) {
    const size_t slash = e.name.find('/');
    if (slash == std::string::npos || e.name.substr(slash) != "/data.pkl") continue;
    if (code) throw Diagnostic(Loc{.file = what}, "two data.pkl in one file");
    code = &e;
    root = e.name.substr(0, slash);
  }
  if (!code) throw Diagnostic(Loc{.file = what}, "not a file of torch.save: no data.pkl in it");
  if (const ZipEntry* order = zip.find(root + "/byteorder")) {
    const Bytes b = zip.read(*order);
    if (std::string_view(reinterpret_cast<const char*>(b.data()), b.size()) != "little")
      throw Diagnostic(Loc{.file = what}, "saved on a big-endian machine, which is not supported");
  }
  std::map<std::string, Bytes> storages;
  return Unpickler(zip.read(*code), what,
                   [&](const std::string& key) {
                     auto it = storages.find(key);
                     if (it == storages.end()) {
                       const ZipEntry* e = zip.find(root + "/data/" + key);
                       if (!e) throw Diagnostic(Loc{.file = what}, fmt::format("the storage '{}' is missing", key));
                       it = storages.emplace(key, zip.read(*e)).first;
                     }
                     return it->second;
                   })
      .run();
}

void write_torch_save(const std::string& path, const std::vector<HostTensor>& tensors) {
  std::string code = "\x80\x02(";
  const auto integer = [&](int64_t v) {
    code += "\x8a\x08";
    code.append(reinterpret_cast<const char*>(&v), sizeof v);
  };
  const auto text = [&](std::string_view s) {
    const auto n = static_cast<uint32_t>(s.size());
    code += 'X';
    code.append(reinterpret_cast<const char*>(&n), sizeof n).append(s);
  };
  const auto name = [&](std::string_view s) {
    const size_t dot = s.rfind('.');
    code.append("c").append(s.substr(0, dot)).append("\n").append(s.substr(dot + 1)).append("\n");
  };
  ZipWriter zip(path);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const HostTensor& t = tensors[i];
    const auto* storage =
        std::find_if(std::begin(kStorages), std::end(kStorages), [&](const StorageType& s) { return s.dtype == t.dtype; });
    if (storage == std::end(kStorages))
      throw Diagnostic(ExitCode::unsupported, {}, fmt::format("example inputs of type {} are not written", dtype_name(t.dtype)));
    name(kTensor), code += "((";
    text("storage"), name(storage->name), text(std::to_string(i)), text("cpu"), integer(t.elems());
    code += "tQ", integer(0), code += '(';
    for (const int64_t d : t.dims) integer(d);
    code += "t(";
    int64_t stride = t.elems();
    for (const int64_t d : t.dims) integer(stride = d > 0 ? stride / d : 0);
    code += "t\x89", name(kOrderedDict), code += ")RtR";
    zip.add(fmt::format("archive/data/{}", i), Bytes(t.bytes));
  }
  zip.add("archive/data.pkl", code += "t}\x86.");
  zip.add("archive/byteorder", "little");
  zip.add("archive/version", "3\n");
  zip.finish();
}

}  // namespace aotc::import
