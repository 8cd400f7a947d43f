/* The tokenizer of BERT's uncased models: clean, lower-case, strip accents, split at spaces and punctuation, then WordPiece. C11. */
#ifndef AOTC_SAMPLES_WORDPIECE_H_
#define AOTC_SAMPLES_WORDPIECE_H_
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct wordpiece_entry {
  const char* text; /* within the vocabulary's text */
  int64_t id;
} wordpiece_entry;
typedef struct wordpiece {
  char* text;
  wordpiece_entry* entries; /* sorted by text */
  size_t n;
  int64_t cls, sep, unk;
} wordpiece;

static int wordpiece_compare(const void* a, const void* b) {
  return strcmp(((const wordpiece_entry*)a)->text, ((const wordpiece_entry*)b)->text);
}

/* The id of a piece, or -1. */
static int64_t wordpiece_find(const wordpiece* w, const char* text) {
  wordpiece_entry key;
  const wordpiece_entry* found;
  key.text = text;
  key.id = 0;
  found = (const wordpiece_entry*)bsearch(&key, w->entries, w->n, sizeof key, wordpiece_compare);
  return found ? found->id : -1;
}

static void wordpiece_close(wordpiece* w) {
  free(w->text);
  free(w->entries);
  memset(w, 0, sizeof *w);
}

/* Reads vocab.txt, one piece a line. 0: it is no vocabulary. */
static int wordpiece_open(wordpiece* w, const char* path) {
  long bytes;
  size_t lines = 1;
  char* at;
  FILE* f = fopen(path, "rb");
  memset(w, 0, sizeof *w);
  if (!f || fseek(f, 0, SEEK_END) != 0 || (bytes = ftell(f)) < 0 || fseek(f, 0, SEEK_SET) != 0) return f ? fclose(f), 0 : 0;
  w->text = (char*)calloc((size_t)bytes + 1, 1);
  if (!w->text || fread(w->text, 1, (size_t)bytes, f) != (size_t)bytes) bytes = 0;
  fclose(f);
  for (at = w->text; at && *at; ++at) lines += *at == '\n';
  w->entries = (wordpiece_entry*)calloc(lines, sizeof *w->entries);
  for (at = w->text; bytes && w->entries && *at;) {
    char* end = at + strcspn(at, "\r\n");
    const size_t gap = end[0] == '\r' && end[1] == '\n' ? 2 : end[0] ? 1 : 0;
    *end = 0;
    w->entries[w->n].text = at;
    w->entries[w->n].id = (int64_t)w->n;
    ++w->n;
    at = end + gap;
  }
  if (w->n) qsort(w->entries, w->n, sizeof *w->entries, wordpiece_compare);
  w->cls = w->n ? wordpiece_find(w, "[CLS]") : -1;
  w->sep = w->n ? wordpiece_find(w, "[SEP]") : -1;
  w->unk = w->n ? wordpiece_find(w, "[UNK]") : -1;
  if (w->cls >= 0 && w->sep >= 0 && w->unk >= 0) return 1;
  wordpiece_close(w);
  return 0;
}

/* The code point at *s, which moves on; a stray byte gives U+FFFD. */
static uint32_t wordpiece_decode(const char** s) {
  const unsigned char* p = (const unsigned char*)*s;
  const int n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
  uint32_t v = n == 1 ? p[0] : p[0] & (0x7fu >> n);
  int k;
  for (k = 1; k < n; ++k) {
    if (p[k] >> 6 != 2) break;
    v = v << 6 | (p[k] & 0x3fu);
  }
  if (n == 0 || k < n) return ++*s, 0xfffd;
  *s += n;
  return v;
}

static int wordpiece_encode_utf8(uint32_t v, char* to) {
  static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  const int n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
  int k;
  if (n == 1) return to[0] = (char)v, 1;
  for (k = n - 1; k > 0; --k, v >>= 6) to[k] = (char)(0x80 | (v & 0x3f));
  to[0] = (char)(lead[n] | v);
  return n;
}

static int wordpiece_in(uint32_t c, const uint32_t (*ranges)[2], size_t n) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (c >= ranges[i][0] && c <= ranges[i][1]) return 1;
  return 0;
}
#define WORDPIECE_IN(c, ranges) wordpiece_in(c, ranges, sizeof(ranges) / sizeof((ranges)[0]))

static const uint32_t wordpiece_spaces[][2] = {{9, 10},          {13, 13},         {32, 32},         {0xa0, 0xa0},     {0x1680, 0x1680},
                                               {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
/* Control characters and combining accents. */
static const uint32_t wordpiece_dropped[][2] = {{0, 8},           {11, 12},       {14, 31},         {0x7f, 0x9f},    {0xad, 0xad},
                                                {0x200b, 0x200f}, {0x300, 0x36f}, {0xfeff, 0xfeff}, {0xfffd, 0xfffd}};
/* Punctuation and ideographs: words of their own. */
static const uint32_t wordpiece_alone[][2] = {{33, 47},         {58, 64},         {91, 96},         {123, 126},       {0xa1, 0xa1},
                                              {0xa7, 0xa7},     {0xab, 0xab},     {0xb6, 0xb7},     {0xbb, 0xbb},     {0xbf, 0xbf},
                                              {0x2010, 0x2027}, {0x2030, 0x205e}, {0x3001, 0x3003}, {0x3008, 0x3011}, {0xff01, 0xff0f},
                                              {0xff1a, 0xff20}, {0x4e00, 0x9fff}, {0x3400, 0x4dbf}, {0xf900, 0xfaff}, {0x20000, 0x2fa1f}};

/* Lower case, without its accent: Latin, Greek and Cyrillic. */
static uint32_t wordpiece_fold(uint32_t c) {
  /* U+00C0 to U+017F; a dot: the letter has no accent to lose. */
  static const char base[] =
      "aaaaaa.ceeeeiiii.nooooo..uuuuy..aaaaaa.ceeeeiiii.nooooo..uuuuy.y"
      "aaaaaaccccccccdd..eeeeeeeeeegggggggghh..iiiiiiiii...jjkk.llllll....nnnnnn...oooooo..rrrrrrssssssssttttt.uuuuuuuuuuuuwwyyyzzzzzz.";
  static const uint16_t accented[][2] = {{0x386, 0x3b1}, {0x388, 0x3b5}, {0x389, 0x3b7}, {0x38a, 0x3b9}, {0x38c, 0x3bf}, {0x38e, 0x3c5},
                                         {0x38f, 0x3c9}, {0x390, 0x3b9}, {0x3aa, 0x3b9}, {0x3ab, 0x3c5}, {0x3ac, 0x3b1}, {0x3ad, 0x3b5},
                                         {0x3ae, 0x3b7}, {0x3af, 0x3b9}, {0x3b0, 0x3c5}, {0x3ca, 0x3b9}, {0x3cb, 0x3c5}, {0x3cc, 0x3bf},
                                         {0x3cd, 0x3c5}, {0x3ce, 0x3c9}, {0x400, 0x435}, {0x401, 0x435}, {0x403, 0x433}, {0x407, 0x456},
                                         {0x40c, 0x43a}, {0x40d, 0x438}, {0x40e, 0x443}, {0x419, 0x438}, {0x439, 0x438}, {0x450, 0x435},
                                         {0x451, 0x435}, {0x453, 0x433}, {0x457, 0x456}, {0x45c, 0x43a}, {0x45d, 0x438}, {0x45e, 0x443}};
  size_t i;
  if (c >= 'A' && c <= 'Z') return c + 32;
  if (c >= 0xc0 && c <= 0x17f) {
    const char b = base[c - 0xc0];
    if (b != '.') return (uint32_t)b;
    if (c < 0x100) return c < 0xdf && c != 0xd7 ? c + 32 : c;
    return (c >= 0x139 && c <= 0x148 ? c % 2 == 1 : c % 2 == 0 && c != 0x138) ? c + 1 : c;
  }
  for (i = 0; i < sizeof accented / sizeof accented[0]; ++i)
    if (accented[i][0] == c) return accented[i][1];
  if ((c >= 0x391 && c <= 0x3a9) || (c >= 0x410 && c <= 0x42f)) return c + 32;
  if (c >= 0x400 && c <= 0x40f) return c + 80;
  return c;
}

enum { WORDPIECE_MAX_CHARS = 100 };

/* The pieces of one word, longest first; [UNK] when they do not cover it. Returns how many of at most `room` were written. */
static size_t wordpiece_word(const wordpiece* w, const uint32_t* word, size_t n, int64_t* out, size_t room) {
  char text[2 + 4 * WORDPIECE_MAX_CHARS + 1];
  size_t at = 0, count = 0;
  while (at < n && n <= WORDPIECE_MAX_CHARS && count < room) {
    size_t ends[WORDPIECE_MAX_CHARS + 1], k, bytes = 0;
    int64_t id = -1;
    if (at) memcpy(text, "##", bytes = 2);
    for (k = at; k < n; ++k) {
      bytes += (size_t)wordpiece_encode_utf8(word[k], text + bytes);
      ends[k - at + 1] = bytes;
    }
    for (k = n - at; k > 0; --k) {
      text[ends[k]] = 0;
      id = wordpiece_find(w, text);
      if (id >= 0) break;
    }
    if (id < 0) break;
    out[count++] = id;
    at += k;
  }
  if (at < n && count < room) out[0] = w->unk, count = 1;
  return count;
}

/* [CLS] pieces [SEP]: at most `limit` (2 or more) ids; returns how many. */
static size_t wordpiece_encode(const wordpiece* w, const char* text, int64_t* ids, size_t limit) {
  uint32_t word[WORDPIECE_MAX_CHARS + 1];
  size_t length = 0, n = 0;
  ids[n++] = w->cls;
  for (;;) {
    const int end = *text == 0;
    const uint32_t raw = end ? ' ' : wordpiece_decode(&text);
    const int space = WORDPIECE_IN(raw, wordpiece_spaces), alone = WORDPIECE_IN(raw, wordpiece_alone);
    if (!space && WORDPIECE_IN(raw, wordpiece_dropped)) continue;
    if (length && (space || alone)) {
      n += wordpiece_word(w, word, length, ids + n, limit - 1 - n);
      length = 0;
    }
    if (end) break;
    if (space) continue;
    if (length <= WORDPIECE_MAX_CHARS) word[length++] = wordpiece_fold(raw); /* one too many makes an [UNK] */
    if (alone) {
      n += wordpiece_word(w, word, 1, ids + n, limit - 1 - n);
      length = 0;
    }
  }
  ids[n++] = w->sep;
  return n;
}
#endif
