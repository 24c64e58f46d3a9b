// driver serves one LevelDB database to a program on the other end of a pair of
// pipes, so that a test in another language can use the C++ library as it is.
//
// Build (Debian: libleveldb-dev):
//
//   g++ -std=c++14 -O2 -fno-rtti -o driver driver.cc -lleveldb -pthread
//
// LevelDB is built without run-time type information, hence -fno-rtti: Env and
// FilterPolicy are subclassed here. With -DLEVELDB_BEFORE_1_21 the driver builds
// against the releases that lack the options reuse_logs and max_file_size, and
// with -DLEVELDB_ZSTD against those that know Zstandard (after 1.23).
//
// Protocol. A request on standard input is answered by one reply on standard
// output, in order.
//
//   request   length u32 | operation 1 byte | arguments      length counts what follows it
//   reply     length u32 | status 1 byte    | results        status 0: fine; 1: failed, results is the text
//   string    length u32 | bytes
//
// Integers are little-endian. "view" is u32: 0 for the present, else a snapshot's id.
//
//   'O'  open: count u32, then count pairs of strings name, value
//   'W'  write one batch: sync 1 byte, count u32, then 1 key value | 0 key
//   'G'  get: view, count u32, keys -> count times: found 1 byte, value if found
//   'I'  scan: view, backward 1 byte -> count u32, then key value
//   'K'  seek: view, count u32, keys -> count times: valid 1 byte, then key value of
//        the first entry that is >= key
//   'S'  take a snapshot -> id u32            'R'  release it: id u32
//   'C'  compact: twice (bounded 1 byte, string)
//   'P'  property: name -> string
//   'N'  counter -> reads of tables u64, which begins again at 0
//   'B'  run the background work that was held back (open's background=held)
//   'V'  repair the database: what 'O' takes; nothing is open after it
//   'Q'  close the database, reply, end
//   'X'  end at once, nothing closed, no reply

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/options.h"
#include "leveldb/write_batch.h"

using leveldb::Slice;
using leveldb::Status;

namespace {

[[noreturn]] void Die(const char* why) {
  fprintf(stderr, "leveldb driver: %s\n", why);
  _exit(2);
}

// Request reads the arguments of one request.
class Request {
 public:
  explicit Request(const std::string& bytes) : bytes_(bytes), at_(0) {}

  uint8_t Byte() { return static_cast<uint8_t>(*Take(1)); }

  uint32_t Number() {
    const unsigned char* p = reinterpret_cast<const unsigned char*>(Take(4));
    return p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;
  }

  Slice String() {
    uint32_t n = Number();
    return Slice(Take(n), n);
  }

 private:
  const char* Take(size_t n) {
    if (bytes_.size() - at_ < n) Die("a request is shorter than it says");
    const char* p = bytes_.data() + at_;
    at_ += n;
    return p;
  }

  const std::string& bytes_;
  size_t at_;
};

void PutNumber(std::string* out, uint64_t v, int bytes) {
  for (int i = 0; i < bytes; i++) out->push_back(static_cast<char>(v >> (8 * i)));
}

void PutString(std::string* out, const Slice& s) {
  PutNumber(out, s.size(), 4);
  out->append(s.data(), s.size());
}

std::atomic<uint64_t> table_reads(0);

// CountedFile counts the reads of a table file.
class CountedFile : public leveldb::RandomAccessFile {
 public:
  explicit CountedFile(leveldb::RandomAccessFile* file) : file_(file) {}
  ~CountedFile() override { delete file_; }

  Status Read(uint64_t offset, size_t n, Slice* result, char* scratch) const override {
    table_reads++;
    return file_->Read(offset, n, result, scratch);
  }

 private:
  leveldb::RandomAccessFile* file_;
};

// DriverEnv counts reads, and holds background work back if told to, so that a
// test decides between which two writes a memtable becomes a table.
class DriverEnv : public leveldb::EnvWrapper {
 public:
  DriverEnv() : EnvWrapper(leveldb::Env::Default()), hold(false) {}

  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) override {
    Status s = target()->NewRandomAccessFile(name, file);
    if (s.ok()) *file = new CountedFile(*file);
    return s;
  }

  void Schedule(void (*work)(void*), void* argument) override {
    if (!hold) return target()->Schedule(work, argument);
    std::lock_guard<std::mutex> guard(mutex_);
    held_.push_back(std::make_pair(work, argument));
  }

  void RunHeld() {
    for (;;) {
      std::pair<void (*)(void*), void*> next;
      {
        std::lock_guard<std::mutex> guard(mutex_);
        if (held_.empty()) return;
        next = held_.front();
        held_.pop_front();
      }
      next.first(next.second);  // may schedule more
    }
  }

  bool hold;

 private:
  std::mutex mutex_;
  std::deque<std::pair<void (*)(void*), void*> > held_;
};

// NamedComparator orders bytewise, or the other way round, under a name of its own.
class NamedComparator : public leveldb::Comparator {
 public:
  NamedComparator(const std::string& name, bool reverse) : name_(name), reverse_(reverse) {}
  int Compare(const Slice& a, const Slice& b) const override { return reverse_ ? b.compare(a) : a.compare(b); }
  const char* Name() const override { return name_.c_str(); }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}

 private:
  std::string name_;
  bool reverse_;
};

class Driver {
 public:
  Driver() : db_(NULL), next_snapshot_(1) { read_.verify_checksums = true; }

  Status Open(Request* request) { return With(request, false); }
  Status Repair(Request* request) { return With(request, true); }

  // With opens or repairs the database that the request describes.
  Status With(Request* request, bool repair) {
    leveldb::Options o;
    std::string dir, comparator;
    bool reverse = false;
    o.env = &env_;
    for (uint32_t n = request->Number(); n > 0; n--) {
      const std::string name = request->String().ToString();
      const std::string value = request->String().ToString();
      const long number = atol(value.c_str());
      if (name == "dir") dir = value;
      else if (name == "create_if_missing") o.create_if_missing = number != 0;
      else if (name == "paranoid_checks") o.paranoid_checks = number != 0;
      else if (name == "verify_checksums") read_.verify_checksums = number != 0;
      else if (name == "bloom_bits") o.filter_policy = leveldb::NewBloomFilterPolicy(static_cast<int>(number));
      else if (name == "compression") o.compression = CompressionOf(value);
      else if (name == "write_buffer_size") o.write_buffer_size = number;
      else if (name == "block_size") o.block_size = number;
      else if (name == "block_cache_size") o.block_cache = leveldb::NewLRUCache(number);
      else if (name == "background") env_.hold = value == "held";
      else if (name == "comparator") comparator = value;
      else if (name == "reverse") reverse = number != 0;
#ifndef LEVELDB_BEFORE_1_21
      else if (name == "max_file_size") o.max_file_size = number;
      else if (name == "reuse_logs") o.reuse_logs = number != 0;
#endif
      else return Status::NotSupported("driver: no option called", name);
    }
    if (!comparator.empty()) o.comparator = new NamedComparator(comparator, reverse);
    return repair ? leveldb::RepairDB(dir, o) : leveldb::DB::Open(o, dir, &db_);
  }

  // Serve handles any operation but 'O', 'V', 'Q' and 'X'.
  Status Serve(char operation, Request* request, std::string* out) {
    if (db_ == NULL) return Status::InvalidArgument("driver: nothing is open");
    switch (operation) {
      case 'W': return Write(request);
      case 'G': return Get(request, out);
      case 'I': return Scan(request, out);
      case 'K': return Seek(request, out);
      case 'S':
        PutNumber(out, next_snapshot_, 4);
        snapshots_[next_snapshot_++] = db_->GetSnapshot();
        return Status::OK();
      case 'R': {
        std::map<uint32_t, const leveldb::Snapshot*>::iterator it = snapshots_.find(request->Number());
        if (it == snapshots_.end()) return Status::InvalidArgument("driver: no such snapshot");
        db_->ReleaseSnapshot(it->second);
        snapshots_.erase(it);
        return Status::OK();
      }
      case 'C': return Compact(request);
      case 'P': {
        std::string value;
        const Slice name = request->String();
        if (!db_->GetProperty(name, &value)) return Status::NotSupported("driver: no property called", name);
        PutString(out, value);
        return Status::OK();
      }
      case 'N':
        PutNumber(out, table_reads.exchange(0), 8);
        return Status::OK();
      case 'B':
        env_.RunHeld();
        return Status::OK();
    }
    return Status::NotSupported("driver: no such operation");
  }

  void Close() {
    for (std::map<uint32_t, const leveldb::Snapshot*>::iterator it = snapshots_.begin(); it != snapshots_.end(); ++it) {
      db_->ReleaseSnapshot(it->second);
    }
    delete db_;
    db_ = NULL;
  }

 private:
  static leveldb::CompressionType CompressionOf(const std::string& name) {
    if (name == "none") return leveldb::kNoCompression;
#ifdef LEVELDB_ZSTD
    if (name == "zstd") return leveldb::kZstdCompression;
#endif
    if (name != "snappy") Die("this LevelDB does not know that compression");
    return leveldb::kSnappyCompression;
  }

  leveldb::ReadOptions View(Request* request) {
    leveldb::ReadOptions o = read_;
    const uint32_t id = request->Number();
    if (id != 0) {
      o.snapshot = snapshots_[id];
      if (o.snapshot == NULL) Die("no such snapshot");
    }
    return o;
  }

  Status Write(Request* request) {
    leveldb::WriteOptions o;
    leveldb::WriteBatch batch;
    o.sync = request->Byte() != 0;
    for (uint32_t n = request->Number(); n > 0; n--) {
      const uint8_t kind = request->Byte();
      const Slice key = request->String();
      if (kind == 0) batch.Delete(key);
      else batch.Put(key, request->String());
    }
    return db_->Write(o, &batch);
  }

  Status Get(Request* request, std::string* out) {
    const leveldb::ReadOptions o = View(request);
    std::string value;
    for (uint32_t n = request->Number(); n > 0; n--) {
      const Status s = db_->Get(o, request->String(), &value);
      if (!s.ok() && !s.IsNotFound()) return s;
      PutNumber(out, s.ok(), 1);
      if (s.ok()) PutString(out, value);
    }
    return Status::OK();
  }

  Status Scan(Request* request, std::string* out) {
    const leveldb::ReadOptions o = View(request);
    const bool backward = request->Byte() != 0;
    const size_t header = out->size();
    uint32_t count = 0;
    PutNumber(out, 0, 4);
    leveldb::Iterator* it = db_->NewIterator(o);
    backward ? it->SeekToLast() : it->SeekToFirst();
    while (it->Valid()) {
      PutString(out, it->key());
      PutString(out, it->value());
      count++;
      backward ? it->Prev() : it->Next();
    }
    for (int i = 0; i < 4; i++) (*out)[header + i] = static_cast<char>(count >> (8 * i));
    const Status s = it->status();
    delete it;
    return s;
  }

  Status Seek(Request* request, std::string* out) {
    leveldb::Iterator* it = db_->NewIterator(View(request));
    Status s;
    for (uint32_t n = request->Number(); n > 0 && s.ok(); n--) {
      it->Seek(request->String());
      PutNumber(out, it->Valid(), 1);
      if (it->Valid()) {
        PutString(out, it->key());
        PutString(out, it->value());
      }
      s = it->status();
    }
    delete it;
    return s;
  }

  Status Compact(Request* request) {
    Slice bounds[2];
    Slice* given[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
      const bool bounded = request->Byte() != 0;
      bounds[i] = request->String();
      if (bounded) given[i] = &bounds[i];
    }
    db_->CompactRange(given[0], given[1]);
    return Status::OK();
  }

  DriverEnv env_;
  leveldb::DB* db_;
  leveldb::ReadOptions read_;
  std::map<uint32_t, const leveldb::Snapshot*> snapshots_;
  uint32_t next_snapshot_;
};

bool ReadFrame(std::string* bytes) {
  unsigned char header[4];
  if (fread(header, 1, 4, stdin) != 4) return false;
  bytes->resize(header[0] | header[1] << 8 | header[2] << 16 | static_cast<size_t>(header[3]) << 24);
  return !bytes->empty() && fread(&(*bytes)[0], 1, bytes->size(), stdin) == bytes->size();
}

void Reply(const Status& s, const std::string& results) {
  const std::string text = s.ok() ? results : s.ToString();
  std::string header;
  PutNumber(&header, text.size() + 1, 4);
  header.push_back(s.ok() ? 0 : 1);
  fwrite(header.data(), 1, header.size(), stdout);
  fwrite(text.data(), 1, text.size(), stdout);
  fflush(stdout);
}

}  // namespace

int main() {
  // Never destroyed: a driver whose other end is gone ends as a killed process does.
  Driver* driver = new Driver;
  std::string bytes;
  while (ReadFrame(&bytes)) {
    const char operation = bytes[0];
    bytes.erase(0, 1);
    Request request(bytes);
    std::string out;
    switch (operation) {
      case 'X':
        _exit(0);
      case 'Q':
        driver->Close();
        Reply(Status::OK(), out);
        return 0;
      case 'O':
        Reply(driver->Open(&request), out);
        break;
      case 'V':
        Reply(driver->Repair(&request), out);
        break;
      default: {
        const Status s = driver->Serve(operation, &request, &out);
        Reply(s, out);
      }
    }
  }
  _exit(0);
}
