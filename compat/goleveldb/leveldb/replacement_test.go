package leveldb_test

import (
	"bytes"
	stderrors "errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// must ends the test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, stor storage.Storage, o *opt.Options) *leveldb.DB {
	t.Helper()
	d, err := leveldb.Open(stor, o)
	must(t, err)
	t.Cleanup(func() { _ = d.Close() }) // the test may have closed it
	return d
}

func fill(t *testing.T, d *leveldb.DB, n int) {
	t.Helper()
	for i := range n {
		must(t, d.Put(fmt.Appendf(nil, "key %04d", i), bytes.Repeat([]byte{byte(i)}, 100), nil))
	}
}

func count(t *testing.T, d *leveldb.DB) (n int) {
	t.Helper()
	it := d.NewIterator(nil, nil)
	defer it.Release()
	for it.Next() {
		n++
	}
	must(t, it.Error())
	return n
}

// failingStorage fails to create files of some types.
type failingStorage struct {
	storage.Storage
	types storage.FileType
}

var errDisk = stderrors.New("disk on fire")

func (s *failingStorage) Create(fd storage.FileDesc) (storage.Writer, error) {
	if fd.Type&s.types != 0 {
		return nil, errDisk
	}
	return s.Storage.Create(fd)
}

func TestErrorsOfAStorageAreReturnedAsTheyAre(t *testing.T) {
	for _, types := range []storage.FileType{storage.TypeManifest, storage.TypeJournal} {
		if _, err := leveldb.Open(&failingStorage{storage.NewMemStorage(), types}, nil); err != errDisk {
			t.Errorf("types %v: %v", types, err)
		}
	}
}

func TestCloseDoesNotWaitForIteratorsAndSnapshots(t *testing.T) {
	d := open(t, storage.NewMemStorage(), nil)
	fill(t, d, 10)
	it := d.NewIterator(nil, nil)
	s, err := d.GetSnapshot()
	must(t, err)
	tr, err := d.OpenTransaction()
	must(t, err)
	must(t, d.Close())
	if it.Next() || it.Error() != leveldb.ErrClosed {
		t.Errorf("iterator: %v", it.Error())
	}
	if _, err := s.Get([]byte("key 0001"), nil); err != leveldb.ErrClosed {
		t.Errorf("snapshot: %v", err)
	}
	if err := tr.Commit(); err != leveldb.ErrClosed {
		t.Errorf("transaction: %v", err)
	}
	it.Release()
	s.Release()
	tr.Discard()
}

// countingStorage counts the files that are open for reading.
type countingStorage struct {
	storage.Storage
	open atomic.Int64
}

func (s *countingStorage) Open(fd storage.FileDesc) (storage.Reader, error) {
	r, err := s.Storage.Open(fd)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countedReader{r, &s.open}, nil
}

type countedReader struct {
	storage.Reader
	open *atomic.Int64
}

func (r *countedReader) Close() error {
	r.open.Add(-1)
	return r.Reader.Close()
}

func TestCloseClosesTheFilesThatIteratorsRead(t *testing.T) {
	stor := &countingStorage{Storage: storage.NewMemStorage()}
	d := open(t, stor, nil)
	fill(t, d, 10)
	must(t, d.CompactRange(util.Range{}))
	it := d.NewIterator(nil, nil)
	if !it.First() || stor.open.Load() == 0 {
		t.Fatal(it.Error(), stor.open.Load())
	}
	must(t, d.Close())
	if n := stor.open.Load(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
	it.Release()
	if n := stor.open.Load(); n != 0 {
		t.Errorf("%d files are open after Release", n)
	}
}

// Slices of an iterator stay as they are until it moves, also after Release, and may be changed.
func TestSlicesOfIteratorsMayBeKeptAndChanged(t *testing.T) {
	d := open(t, storage.NewMemStorage(), nil)
	fill(t, d, 3)
	must(t, d.CompactRange(util.Range{}))
	it := d.NewIterator(nil, nil)
	if !it.First() {
		t.Fatal(it.Error())
	}
	key, value := it.Key(), it.Value()
	value[0] = 'x'
	it.Release()
	if string(key) != "key 0000" || value[0] != 'x' {
		t.Errorf("%q = %q", key, value)
	}
	if got, err := d.Get(key, nil); err != nil || got[0] != 0 {
		t.Errorf("the change reached the database: %q, %v", got, err)
	}
}

func TestTheSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	if _, err := leveldb.OpenFile(dir, nil); err == nil {
		t.Error("opened a directory twice")
	}
	must(t, d.Close())
	stor := storage.NewMemStorage()
	open(t, stor, nil)
	if _, err := leveldb.Open(stor, nil); err != storage.ErrLocked {
		t.Errorf("a storage: %v", err)
	}
}

func TestRecoverWithoutCurrent(t *testing.T) {
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	fill(t, d, 100)
	must(t, d.CompactRange(util.Range{}))
	must(t, d.Close())
	must(t, os.Remove(filepath.Join(dir, "CURRENT")))
	if _, err := leveldb.OpenFile(dir, nil); !errors.IsCorrupted(err) {
		t.Fatalf("without CURRENT: %v", err)
	}
	d, err = leveldb.RecoverFile(dir, nil)
	must(t, err)
	defer d.Close()
	equal(t, 100, count(t, d))
}

// A storage of a program keeps the files of which Recover has no use.
func TestRecoverAStorage(t *testing.T) {
	stor := storage.NewMemStorage()
	d := open(t, stor, nil)
	fill(t, d, 100)
	must(t, d.CompactRange(util.Range{}))
	must(t, d.Close())
	manifests, err := stor.List(storage.TypeManifest)
	must(t, err)
	for _, fd := range manifests {
		w, err := stor.Create(fd) // truncates it
		must(t, err)
		must(t, w.Close())
	}
	if _, err := leveldb.Open(stor, nil); !errors.IsCorrupted(err) {
		t.Fatalf("with an empty MANIFEST: %v", err)
	}
	d, err = leveldb.Recover(stor, nil)
	must(t, err)
	defer d.Close()
	equal(t, 100, count(t, d))
}

func TestATransactionExcludesWriters(t *testing.T) {
	d := open(t, storage.NewMemStorage(), nil)
	tr, err := d.OpenTransaction()
	must(t, err)
	done := make(chan error)
	go func() { done <- d.Put([]byte("k"), []byte("writer"), nil) }()
	for range 100 {
		must(t, tr.Put([]byte("k"), []byte("transaction"), nil))
	}
	must(t, tr.Commit())
	must(t, <-done)
	if value, err := d.Get([]byte("k"), nil); string(value) != "writer" {
		t.Errorf("%q, %v", value, err)
	}
}

// evenFilter is a filter of a program.
type evenFilter struct{ asked *int }

func (evenFilter) Name() string                           { return "test.Even" }
func (f evenFilter) NewGenerator() filter.FilterGenerator { return &evenGenerator{} }

func (f evenFilter) Contains(filter, key []byte) bool {
	*f.asked++
	return len(filter) > 0 && filter[0] == 1 && len(key)%2 == 0
}

type evenGenerator struct{ odd bool }

func (g *evenGenerator) Add(key []byte) { g.odd = g.odd || len(key)%2 != 0 }

func (g *evenGenerator) Generate(b filter.Buffer) {
	dst := b.Alloc(1)
	if !g.odd {
		dst[0] = 1
	}
}

func TestFiltersHaveGoleveldbsNamesOnDisk(t *testing.T) {
	asked := 0
	for _, f := range []filter.Filter{filter.NewBloomFilter(10), evenFilter{&asked}} {
		dir := t.TempDir()
		d, err := leveldb.OpenFile(dir, &opt.Options{Filter: f})
		must(t, err)
		fill(t, d, 100)
		must(t, d.CompactRange(util.Range{}))
		if _, err := d.Get([]byte("key 000"), nil); err != leveldb.ErrNotFound {
			t.Errorf("an absent key: %v", err)
		}
		if _, err := d.Get([]byte("key 0007"), nil); err != nil {
			t.Errorf("a present key: %v", err)
		}
		must(t, d.Close())
		tables, err := filepath.Glob(filepath.Join(dir, "*.ldb"))
		if err != nil || len(tables) == 0 {
			t.Fatal("no tables", err)
		}
		content, err := os.ReadFile(tables[0])
		must(t, err)
		if !bytes.Contains(content, []byte("filter."+f.Name())) {
			t.Errorf("%s is not in the table", f.Name())
		}
	}
	if asked == 0 {
		t.Error("the program's filter was not used")
	}
}

func TestPropertiesHaveGoleveldbsFormats(t *testing.T) {
	d := open(t, storage.NewMemStorage(), nil)
	fill(t, d, 1000)
	must(t, d.CompactRange(util.Range{}))
	for name, format := range map[string]string{
		"stats":               `^Compactions\n Level \|   Tables   .*\n-[-+]+\n( +\d+   \| +\d+ \| +[\d.]+ \| +[\d.]+ \| +[\d.]+ \| +[\d.]+\n)+-[-+]+\n Total \| +[1-9]`,
		"iostats":             `^Read\(MB\):\d+\.\d{5} Write\(MB\):\d+\.\d{5}$`,
		"writedelay":          `^DelayN:\d+ Delay:\S+ Paused:(true|false)$`,
		"compcount":           `^MemComp:\d+ Level0Comp:\d+ NonLevel0Comp:\d+ SeekComp:0$`,
		"sstables":            `(?s)^--- level 0 ---\n.*\d+:\d+\["key 0000" \.\. "key 0999"\]\n$`,
		"num-files-at-level0": `^\d+$`,
		"cachedblock":         `^\d+$`,
		"openedtables":        `^\d+$`,
		"alivesnaps":          `^0$`,
		"aliveiters":          `^0$`,
	} {
		text, err := d.GetProperty("leveldb." + name)
		if err != nil || !regexp.MustCompile(format).MatchString(text) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestMessagesGoToTheStorage(t *testing.T) {
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	fill(t, d, 1000)
	must(t, d.CompactRange(util.Range{}))
	must(t, d.Close())
	if text, err := os.ReadFile(filepath.Join(dir, "LOG")); err != nil || len(text) < 100 {
		t.Errorf("LOG: %q, %v", text, err)
	}
}

// Recover ignores the options about what must exist, and says that a storage is in use as Open does.
func TestRecoverIgnoresWhatMustExist(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []*opt.Options{{ErrorIfMissing: true}, {ErrorIfExist: true}} {
		d, err := leveldb.RecoverFile(dir, o)
		must(t, err)
		fill(t, d, 10)
		must(t, d.Close())
	}
	stor := storage.NewMemStorage()
	d := open(t, stor, nil)
	if _, err := leveldb.Recover(stor, nil); err != storage.ErrLocked {
		t.Errorf("of an open database: %v", err)
	}
	must(t, d.Put([]byte("k"), nil, nil))
}

// A read-only database opens with what a crash of goleveldb left of CURRENT, as a writable one does, and
// changes nothing.
func TestCurrentIsFoundByReaders(t *testing.T) {
	for name, spoil := range map[string]func(current string, content []byte) error{
		"only CURRENT.bak": func(current string, content []byte) error {
			return os.Rename(current, current+".bak")
		},
		"only CURRENT.n": func(current string, content []byte) error {
			return os.Rename(current, current+".7")
		},
		"CURRENT names a lost MANIFEST": func(current string, content []byte) error {
			return stderrors.Join(os.WriteFile(current+".bak", content, 0o600), os.WriteFile(current, []byte("MANIFEST-000099\n"), 0o600))
		},
		"CURRENT is torn": func(current string, content []byte) error {
			return stderrors.Join(os.WriteFile(current+".bak", content, 0o600), os.WriteFile(current, content[:5], 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			current := filepath.Join(dir, "CURRENT")
			d, err := leveldb.OpenFile(dir, nil)
			must(t, err)
			fill(t, d, 100)
			must(t, d.Close())
			content, err := os.ReadFile(current)
			must(t, err)
			_ = os.Remove(current + ".bak") // there may be none
			must(t, spoil(current, content))
			before, err := os.ReadDir(dir)
			must(t, err)
			for _, readOnly := range []bool{true, false} {
				d, err := leveldb.OpenFile(dir, &opt.Options{ReadOnly: readOnly, ErrorIfMissing: true})
				must(t, err)
				equal(t, 100, count(t, d))
				must(t, d.Close())
				if after, err := os.ReadDir(dir); readOnly && fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("%v, before %v, %v", after, before, err)
				}
			}
		})
	}
}

// The iterators of a transaction are used in several goroutines while it is used, discarded or closed with
// the database. The race detector examines this.
func TestIteratorsOfATransactionAreIndependent(t *testing.T) {
	for _, end := range []func(*leveldb.DB, *leveldb.Transaction){
		func(_ *leveldb.DB, tr *leveldb.Transaction) { tr.Discard() },
		func(d *leveldb.DB, _ *leveldb.Transaction) { must(t, d.Close()) },
		func(_ *leveldb.DB, tr *leveldb.Transaction) { must(t, tr.Commit()) },
	} {
		d := open(t, storage.NewMemStorage(), nil)
		fill(t, d, 200)
		tr, err := d.OpenTransaction()
		must(t, err)
		var walks sync.WaitGroup
		for range 4 {
			it := tr.NewIterator(nil, nil)
			walks.Go(func() {
				defer it.Release()
				for ok := it.First(); ok; ok = it.Next() {
				}
				for it.Prev() {
				}
				if err := it.Error(); err != nil && err != leveldb.ErrClosed {
					t.Error(err)
				}
			})
		}
		for i := range 50 {
			must(t, tr.Put(fmt.Appendf(nil, "key %04d", 2*i), nil, nil))
			if value, err := tr.Get(fmt.Appendf(nil, "key %04d", 2*i+1), nil); len(value) != 100 {
				t.Errorf("%q, %v", value, err)
			}
		}
		end(d, tr)
		walks.Wait()
	}
}

// Several goroutines write one batch to several databases, and read it meanwhile.
func TestABatchIsWrittenByManyAtOnce(t *testing.T) {
	var batch leveldb.Batch
	for i := range 20 {
		batch.Put(fmt.Appendf(nil, "key %04d", i), []byte("value"))
	}
	want := batch.Dump()
	first, second := open(t, storage.NewMemStorage(), nil), open(t, storage.NewMemStorage(), nil)
	var writers sync.WaitGroup
	for n := range 4 {
		writers.Go(func() {
			for range 200 {
				if err := []*leveldb.DB{first, second}[n%2].Write(&batch, nil); err != nil {
					t.Error(err)
					return
				}
				var read leveldb.Batch
				if err := batch.Replay(&read); err != nil || !bytes.Equal(read.Dump(), want) || !bytes.Equal(batch.Dump(), want) {
					t.Errorf("%q, %q, %v", read.Dump(), batch.Dump(), err)
					return
				}
			}
		})
	}
	writers.Wait()
	if a, b := count(t, first), count(t, second); a != 20 || b != 20 {
		t.Errorf("%d and %d keys", a, b)
	}
}

// Read-only storages share the lock of a directory, so a database that writes does not open in one.
func TestAReadOnlyStorageIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	fill(t, d, 100)
	must(t, d.Close())
	before, err := os.ReadDir(dir)
	must(t, err)
	stor, err := storage.OpenFile(dir, true)
	must(t, err)
	defer stor.Close()
	for name, open := range map[string]func() (*leveldb.DB, error){
		"Open":              func() (*leveldb.DB, error) { return leveldb.Open(stor, nil) },
		"Recover":           func() (*leveldb.DB, error) { return leveldb.Recover(stor, nil) },
		"Recover, ReadOnly": func() (*leveldb.DB, error) { return leveldb.Recover(stor, &opt.Options{ReadOnly: true}) },
	} {
		if _, err := open(); err == nil || err.Error() != "leveldb/storage: storage is read-only" {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, 100, count(t, open(t, stor, &opt.Options{ReadOnly: true})))
	if after, err := os.ReadDir(dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v, before %v, %v", after, before, err)
	}
}

// metaStorage fails to read CURRENT.
type metaStorage struct {
	storage.Storage
	err error
}

func (s *metaStorage) GetMeta() (storage.FileDesc, error) { return storage.FileDesc{}, s.err }

// A failure to read CURRENT is not taken for a lost CURRENT. Damage is, so that Recover restores it.
func TestAStorageThatCannotReadCurrent(t *testing.T) {
	stor := storage.NewMemStorage()
	if _, err := leveldb.Open(&metaStorage{stor, errDisk}, nil); err != errDisk {
		t.Errorf("an empty storage: %v", err)
	}
	d := open(t, stor, nil)
	fill(t, d, 100)
	must(t, d.Close())
	if _, err := leveldb.Open(&metaStorage{stor, errDisk}, nil); err != errDisk {
		t.Errorf("%v", err)
	}
	damage := &storage.ErrCorrupted{Err: errDisk}
	if _, err := leveldb.Open(&metaStorage{stor, damage}, nil); !errors.IsCorrupted(err) {
		t.Errorf("damaged: %v", err)
	}
	equal(t, 100, count(t, open(t, stor, nil)))
}

// Recover works on a program's Storage over a directory whose CURRENT is damaged.
func TestRecoverAStorageWithADamagedCurrent(t *testing.T) {
	dir := t.TempDir()
	d, err := leveldb.OpenFile(dir, nil)
	must(t, err)
	fill(t, d, 100)
	must(t, d.Close())
	must(t, os.WriteFile(filepath.Join(dir, "CURRENT"), []byte("x"), 0o600))
	_ = os.Remove(filepath.Join(dir, "CURRENT.bak")) // there may be none
	files, err := storage.OpenFile(dir, false)
	must(t, err)
	defer files.Close()
	stor := &failingStorage{Storage: files}
	if _, err := leveldb.Open(stor, nil); !errors.IsCorrupted(err) {
		t.Errorf("%v", err)
	}
	d, err = leveldb.Recover(stor, nil)
	must(t, err)
	defer d.Close()
	equal(t, 100, count(t, d))
}

// Close in the middle of OpenTransaction leaves no writer waiting.
func TestCloseWhileATransactionOpens(t *testing.T) {
	for range 50 {
		d := open(t, storage.NewMemStorage(), nil)
		var users sync.WaitGroup
		users.Go(func() {
			if tr, err := d.OpenTransaction(); err == nil {
				_ = tr.Commit() // returns ErrClosed or nil
			} else if err != leveldb.ErrClosed {
				t.Error(err)
			}
		})
		users.Go(func() {
			if err := d.Put([]byte("k"), nil, nil); err != nil && err != leveldb.ErrClosed {
				t.Error(err)
			}
		})
		must(t, d.Close())
		users.Wait()
	}
}
