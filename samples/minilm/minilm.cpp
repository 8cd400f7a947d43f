// Sentences to embeddings with all-MiniLM-L6-v2, from plain C++: no Python, no LibTorch.
//
//   c++ -std=c++17 -O2 -I include samples/minilm/minilm.cpp -o minilm -ldl
//   ./minilm model.so vocab.txt "A cat sits on the mat." "A kitten rests on a rug."
//
// The artifact takes input_ids and attention_mask, int64 [batch, seq], and gives one float32 [batch, 384] of unit length. Works with a
// fixed sequence length (the sentence is padded) and with a dynamic one.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "aotc/aotc.hpp"
#include "wordpiece.h"

namespace {

/// Ends the program with the message when a call failed.
void need(const aotc::host::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.message.c_str());
  std::exit(1);
}

struct Embedder {
  aotc::host::Model model;
  aotc::host::Context context;
  WordPiece tokenizer;
  aotc_dim seq{};

  Embedder(const char* artifact, const char* vocab) : tokenizer(vocab) {
    if (!tokenizer.ok()) need({AOTC_NOT_FOUND, std::string(vocab) + " is not a vocabulary of BERT"});
    need(aotc::host::Model::load(artifact, &model));
    const auto inputs = model.inputs();
    const auto outputs = model.outputs();
    if (inputs.size() != 2 || inputs[0].dims.size() != 2 || outputs.size() != 1 || outputs[0].dtype != AOTC_DTYPE_F32)
      need({AOTC_INVALID_ARGUMENT, std::string(artifact) + " is not a sentence embedder with input_ids and attention_mask"});
    seq = inputs[0].dims[1];
    aotc::host::ContextOptions options;
    options.threads = -1;
    need(model.context(&context, options));
  }

  std::vector<float> embed(const std::string& sentence) {
    std::vector<int64_t> ids = tokenizer.encode(sentence, static_cast<size_t>(seq.symbol ? seq.max : seq.value));
    std::vector<int64_t> mask(ids.size(), 1);
    if (!seq.symbol) {  // fixed length: pad
      ids.resize(static_cast<size_t>(seq.value), 0);
      mask.resize(ids.size(), 0);
    }
    const std::vector<int64_t> shape = {1, static_cast<int64_t>(ids.size())};
    const std::vector<aotc_tensor> in = {aotc::host::tensor(ids.data(), shape), aotc::host::tensor(mask.data(), shape)};
    std::vector<std::vector<int64_t>> shapes;
    need(context.output_shapes(in, &shapes));
    std::vector<float> embedding(static_cast<size_t>(shapes[0].back()));
    need(context.run(in, {aotc::host::tensor(embedding.data(), shapes[0])}));
    return embedding;
  }
};

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: minilm model.so vocab.txt \"a sentence\" [\"another\" ...]\n");
    return 2;
  }
  Embedder embedder(argv[1], argv[2]);
  std::vector<std::vector<float>> embeddings;
  for (int i = 3; i < argc; ++i) {
    const auto start = std::chrono::steady_clock::now();
    embeddings.push_back(embedder.embed(argv[i]));
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    std::printf("\"%s\"\n  [", argv[i]);
    for (size_t k = 0; k < 6 && k < embeddings.back().size(); ++k) std::printf("%s%.6f", k ? ", " : "", double{embeddings.back()[k]});
    std::printf(", ...] %zu values, %.2f ms\n", embeddings.back().size(), ms);
  }
  for (size_t i = 1; i < embeddings.size(); ++i)
    std::printf("cosine similarity of 1 and %zu: %.4f\n", i + 1, cosine(embeddings[0], embeddings[i]));
  return 0;
}
