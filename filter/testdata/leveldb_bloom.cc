// Prints the filters that LevelDB's own bloom policy makes, and its verdicts on
// filters that no policy would make, for the tests of this package to compare
// with. Made with Debian's libleveldb-dev 1.23-4:
//
//   g++ -O2 -o leveldb_bloom leveldb_bloom.cc -lleveldb
//   ./leveldb_bloom > leveldb_bloom.txt
//
// Key lists are named by a recipe and a count; golden_test.go makes the same.

#include <leveldb/filter_policy.h>
#include <leveldb/slice.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

using Keys = std::vector<std::string>;

static std::string Hex(const std::string& s) {
  std::string out;
  char buf[3];
  for (unsigned char c : s) {
    snprintf(buf, sizeof buf, "%02x", c);
    out += buf;
  }
  return out.empty() ? "-" : out;
}

// words: the worked example of the package comment.
static Keys Words(int) { return {"hello", "world"}; }

// le32: 0, 1, 2 … as four bytes, little-endian, as in LevelDB's bloom_test.cc.
static Keys LittleEndian(int n) {
  Keys keys;
  for (uint32_t i = 0; i < static_cast<uint32_t>(n); i++) {
    std::string k;
    for (int b = 0; b < 4; b++) k.push_back(static_cast<char>(i >> (8 * b)));
    keys.push_back(k);
  }
  return keys;
}

// dec16: 0, 1, 2 … in sixteen decimal digits.
static Keys Decimal(int n) {
  Keys keys;
  char buf[32];
  for (int i = 0; i < n; i++) {
    snprintf(buf, sizeof buf, "%016d", i);
    keys.push_back(buf);
  }
  return keys;
}

// bytes: key i has i mod 17 bytes, byte j of it is 131 i + 29 j modulo 256, so
// that every tail length meets bytes above 0x7f. Key 0 is the empty key.
static Keys Bytes(int n) {
  Keys keys;
  for (int i = 0; i < n; i++) {
    std::string k;
    for (int j = 0; j < i % 17; j++) k.push_back(static_cast<char>(131 * i + 29 * j));
    keys.push_back(k);
  }
  return keys;
}

static void Filter(int bits, const char* recipe, int n, Keys (*make)(int)) {
  std::unique_ptr<const leveldb::FilterPolicy> policy(leveldb::NewBloomFilterPolicy(bits));
  const Keys keys = make(n);
  std::vector<leveldb::Slice> slices(keys.begin(), keys.end());
  std::string filter;
  policy->CreateFilter(slices.data(), static_cast<int>(slices.size()), &filter);
  printf("filter %d %s %d %s\n", bits, recipe, n, Hex(filter).c_str());
}

static void Verdict(const std::string& filter, const std::string& key) {
  std::unique_ptr<const leveldb::FilterPolicy> policy(leveldb::NewBloomFilterPolicy(10));
  printf("verdict %s %s %s\n", Hex(filter).c_str(), Hex(key).c_str(),
         policy->KeyMayMatch(key, filter) ? "may" : "no");
}

int main() {
  printf("# LevelDB 1.23 (Debian libleveldb-dev 1.23-4), printed by leveldb_bloom.cc\n");
  printf("# filter BITS_PER_KEY RECIPE COUNT FILTER_HEX\n");
  for (int bits = 0; bits <= 100; bits++) Filter(bits, "words", 2, Words);
  for (int n : {0, 1, 6, 7, 36, 100, 1000, 5000}) Filter(10, "le32", n, LittleEndian);
  for (int bits : {1, 4, 16, 20, 43, 44}) Filter(bits, "le32", 100, LittleEndian);
  Filter(10, "dec16", 500, Decimal);
  for (int n : {1, 17, 300}) Filter(10, "bytes", n, Bytes);

  printf("# verdict FILTER_HEX KEY_HEX may|no (-: no bytes)\n");
  const std::string zero(1, '\0');
  for (const char* key : {"", "hello"}) {
    Verdict("", key);
    Verdict("\x06", key);
    Verdict("\xff", key);
    for (int k : {0, 1, 6, 29, 30, 31, 127, 128, 255}) {
      const std::string last(1, static_cast<char>(k));
      Verdict(zero + last, key);
      Verdict("\xff" + last, key);
      Verdict(zero + "\xff" + last, key);
    }
  }
  uint32_t state = 1;
  for (int i = 0; i < 200; i++) {  // mostly set bits, so that many probes are made
    std::string filter;
    for (int j = 0; j < 1 + i % 23; j++) {
      state = state * 1664525u + 1013904223u;
      filter.push_back(static_cast<char>((state >> 24) | (state >> 16) | (state >> 8)));
    }
    filter.push_back(static_cast<char>(i % 33));
    Verdict(filter, "key" + std::to_string(i));
  }
  return 0;
}
