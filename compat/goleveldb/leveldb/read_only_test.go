package leveldb_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// watchedStorage reports what is written once ended is set.
type watchedStorage struct {
	storage.Storage
	t     *testing.T
	ended atomic.Bool
}

func (s *watchedStorage) note(what string) {
	if s.ended.Load() {
		s.t.Errorf("%s after SetReadOnly", what)
	}
}

func (s *watchedStorage) Create(fd storage.FileDesc) (storage.Writer, error) {
	s.note("create")
	w, err := s.Storage.Create(fd)
	if err != nil {
		return nil, err
	}
	return &watchedWriter{w, s}, nil
}

func (s *watchedStorage) Remove(fd storage.FileDesc) error {
	s.note("remove")
	return s.Storage.Remove(fd)
}

func (s *watchedStorage) SetMeta(fd storage.FileDesc) error {
	s.note("set meta")
	return s.Storage.SetMeta(fd)
}

func (s *watchedStorage) Rename(from, to storage.FileDesc) error {
	s.note("rename")
	return s.Storage.Rename(from, to)
}

type watchedWriter struct {
	storage.Writer
	s *watchedStorage
}

func (w *watchedWriter) Write(p []byte) (int, error) { w.s.note("write"); return w.Writer.Write(p) }
func (w *watchedWriter) Sync() error                 { w.s.note("sync"); return w.Writer.Sync() }

// Close synced the log and wrote the MANIFEST, and compactions went on.
func TestNothingIsWrittenAfterSetReadOnly(t *testing.T) {
	s := &watchedStorage{Storage: storage.NewMemStorage(), t: t}
	d, err := leveldb.Open(s, &opt.Options{WriteBuffer: 64 << 10, CompactionTableSize: 64 << 10})
	must(t, err)
	for i := range 5000 {
		must(t, d.Put(fmt.Appendf(nil, "key %d", i*7919%5000), make([]byte, 100), nil))
	}
	compacted := make(chan error, 1)
	go func() { compacted <- d.CompactRange(util.Range{}) }()
	it := d.NewIterator(nil, nil)
	must(t, d.SetReadOnly())
	s.ended.Store(true)
	if err := <-compacted; err != nil && err != leveldb.ErrReadOnly {
		t.Error(err)
	}
	equal(t, error(leveldb.ErrReadOnly), d.Put([]byte("k"), nil, nil))
	equal(t, error(leveldb.ErrReadOnly), d.CompactRange(util.Range{}))
	equal(t, 5000, count(t, d))
	it.Release()
	must(t, d.Close())
	s.ended.Store(false)
	equal(t, 5000, count(t, open(t, s, nil)))
}
