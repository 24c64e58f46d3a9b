package db_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/manifest"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/vfs"
)

var (
	fillCount = flag.Int("fill.count", 20, "how often the fill test fills its disk")
	fillSeed  = flag.Uint64("fill.seed", 0, "seed of the fill test; 0 chooses a random one")
)

const (
	fillDiskSize = 16 << 20
	// fillBallast is the size of the file that is removed once the disk is full. A compaction needs space for its
	// outputs while its inputs still exist, and with level 0 among them these can be the whole database.
	fillBallast = fillDiskSize / 2
	fillKeys    = 5000 // at 4 KiB each they are more than the disk holds
)

// fillDisk is a disk of fillDiskSize bytes.
type fillDisk struct {
	fs  vfs.FS
	dir string // of the database
	// ballast makes a file of the given size next to the database, or removes it if the size is 0.
	ballast func(sizeBytes int) error
}

// simulatedDisk returns a disk in memory. As on a real one, removing a file frees its space, and a write that does not
// fit is cut short. The reserved space of a log counts until it is cut, and a write within it needs none.
func simulatedDisk() fillDisk { return simulatedDiskOf(fillDiskSize) }

func simulatedDiskOf(size int64) fillDisk {
	d := &sizedDisk{mem: vfs.NewMem(), size: size, reserved: map[string]int64{}}
	full := wrap.NewFaulty(d.mem, d.fault)
	return fillDisk{fs: full, dir: "db", ballast: func(sizeBytes int) error {
		d.ballast.Store(int64(sizeBytes))
		return nil
	}}
}

// sizedDisk is a disk in memory of that size.
type sizedDisk struct {
	mem     *vfs.Mem
	size    int64
	ballast atomic.Int64

	mu       sync.Mutex
	reserved map[string]int64 // the length of each log; on a nearly full disk it is less than that of its file in mem
}

// length returns the space that a file takes.
func (d *sizedDisk) length(name string) int64 {
	info, err := d.mem.Stat(name)
	if err != nil {
		return 0
	}
	if to, ok := d.reserved[filepath.Base(name)]; ok {
		return min(info.Size(), to)
	}
	return info.Size()
}

func (d *sizedDisk) used() int64 {
	sum := d.ballast.Load()
	for _, dir := range []string{"db", filepath.Join("db", manifest.LostDir)} {
		names, _ := d.mem.List(dir)
		for _, name := range names {
			sum += d.length(filepath.Join(dir, name))
		}
	}
	return sum
}

func (d *sizedDisk) fault(op wrap.Op) *wrap.Fault {
	d.mu.Lock()
	defer d.mu.Unlock()
	need := int64(op.Length)
	switch op.Kind {
	case wrap.OpWrite:
		need += op.Offset - d.length(op.Name)
	case wrap.OpReserve:
	default:
		return nil
	}
	if space := d.size - d.used(); need > max(0, space) {
		return &wrap.Fault{Err: syscall.ENOSPC, Short: int(max(0, space))}
	}
	if op.Kind == wrap.OpReserve {
		d.reserved[filepath.Base(op.Name)] = op.Offset + int64(op.Length)
	}
	return nil
}

// fillRun fills a disk repeatedly with one database.
type fillRun struct {
	disk    fillDisk
	rnd     *rand.Rand
	model   *oracle.Possible // of keys; values are identified by number
	d       *db.DB
	next    uint64
	refused int // writes that failed with ErrNoSpace
	finals  int // times that the store had to be reopened
}

func (r *fillRun) open() (err error) {
	r.d, err = db.Open(r.disk.dir, &db.Options{
		FS: r.disk.fs, Memtables: db.MemtableOptions{Size: 256 << 10},
		Tables: db.TableOptions{Size: 256 << 10, Compression: db.NoCompression}, Compaction: db.CompactionOptions{MaxLevelBase: 1 << 20},
		Cache: db.CacheOptions{Size: 256 << 10},
	})
	return err
}

func fillKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// fillValue returns the value with that number: 1 to 8 KiB that start with the number.
func fillValue(number uint64) []byte {
	rnd := rand.New(rand.NewPCG(number, 7))
	v := make([]byte, 1<<10+rnd.IntN(7<<10))
	for i := 0; i+8 <= len(v); i += 8 {
		binary.LittleEndian.PutUint64(v[i:], rnd.Uint64())
	}
	binary.BigEndian.PutUint64(v, number)
	return v
}

// numberOf returns the number of a value as the model has it, or says what is wrong with the value.
func numberOf(v []byte) string {
	if len(v) < 8 {
		return fmt.Sprintf("%d bytes", len(v))
	}
	number := binary.BigEndian.Uint64(v)
	if string(fillValue(number)) != string(v) {
		return fmt.Sprintf("not the value with number %d", number)
	}
	return strconv.FormatUint(number, 10)
}

// write puts a value at a random key.
func (r *fillRun) write() error {
	r.next++
	key, wo := r.rnd.IntN(fillKeys), &db.WriteOptions{NoSync: r.rnd.IntN(4) > 0}
	number := strconv.FormatUint(r.next, 10)
	r.model.Begun(key, number)
	err := r.d.Put(fillKey(key), fillValue(r.next), wo)
	if err == nil {
		r.model.Acked(key, number)
	}
	return err
}

func (r *fillRun) delete(key int) error {
	r.model.Begun(key, "")
	err := r.d.Delete(fillKey(key), db.NoSync)
	if err == nil {
		r.model.Acked(key, "")
	}
	return err
}

// untilFull writes until the disk has been full for a few writes.
func (r *fillRun) untilFull() error {
	for refused, writes := 0, 0; refused < 5; writes++ {
		switch err := r.write(); {
		case err == nil:
		case errors.Is(err, db.ErrNoSpace):
			refused++
		default:
			return fmt.Errorf("a write on the full disk failed with %w", err)
		}
		if writes > 20*fillKeys {
			return errors.New("the disk is never full")
		}
	}
	r.refused += 5
	return nil
}

// insist repeats an operation that fails with ErrNoSpace, because the background may still be freeing
// space. It reopens the database after ErrReadOnly.
func (r *fillRun) insist(do func() error) error {
	for start := time.Now(); ; {
		err := do()
		if err == nil {
			return nil
		}
		if time.Since(start) > 5*time.Minute { // only a store that never recovers waits that long
			return fmt.Errorf("there is space, but the operation still fails: %w", err)
		}
		switch {
		case errors.Is(err, db.ErrReadOnly):
			r.finals++
			_ = r.d.Close()
			if err := r.open(); err != nil {
				return err
			}
		case !errors.Is(err, db.ErrNoSpace):
			return err
		}
		r.d.Committer().Pause(5 * time.Millisecond)
	}
}

// readAll compares all entries with the model.
func (r *fillRun) readAll() error {
	it, err := r.d.NewIterator(nil)
	if err != nil {
		return err
	}
	found := map[string]string{}
	for ok := it.First(); ok; ok = it.Next() {
		found[string(it.Key())] = numberOf(it.Value())
	}
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	for key := range fillKeys {
		number := found[string(fillKey(key))]
		if err := r.model.Check(key, number); err != nil {
			return err
		}
		if key%10 != 0 {
			continue
		}
		v, err := r.d.Get(fillKey(key))
		if err == db.ErrNotFound && number == "" {
			continue
		}
		if err != nil || numberOf(v) != number {
			return fmt.Errorf("Get of key %d: %s, %v; the iterator shows %s", key, numberOf(v), err, number)
		}
	}
	return nil
}

// fill fills the disk, reads, frees space, writes more, shrinks the database and reopens it.
func (r *fillRun) fill() error {
	if err := r.disk.ballast(fillBallast); err != nil {
		return fmt.Errorf("making the ballast: %w", err)
	}
	if err := r.untilFull(); err != nil {
		return err
	}
	if err := r.readAll(); err != nil {
		return fmt.Errorf("on the full disk: %w", err)
	}
	if r.rnd.IntN(4) == 0 { // closed and opened while it is full
		_ = r.d.Close()
		if err := r.open(); err != nil {
			if !errors.Is(err, db.ErrNoSpace) {
				return fmt.Errorf("Open on the full disk: %w", err)
			}
			r.d = nil
		}
	}
	if err := r.disk.ballast(0); err != nil {
		return err
	}
	if r.d == nil {
		if err := r.open(); err != nil {
			return fmt.Errorf("Open, with space: %w", err)
		}
	}
	for range 100 {
		if err := r.insist(r.write); err != nil {
			return fmt.Errorf("writing with space again: %w", err)
		}
	}
	return r.shrink()
}

// shrink deletes nine of ten keys, compacts the database and reopens it.
func (r *fillRun) shrink() error {
	for key := range fillKeys {
		if r.rnd.IntN(10) == 0 {
			continue
		}
		if err := r.insist(func() error { return r.delete(key) }); err != nil {
			return fmt.Errorf("deleting: %w", err)
		}
	}
	if err := r.insist(func() error { return r.d.Compact(context.Background(), nil, nil) }); err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	if err := r.readAll(); err != nil {
		return fmt.Errorf("compacted: %w", err)
	}
	if err := r.d.Close(); err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return err
	}
	return r.readAll()
}

// runFills fills the disk count times.
func runFills(t *testing.T, disk fillDisk, count int) {
	seed := *fillSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	t.Logf("seed %d", seed)
	r := &fillRun{disk: disk, rnd: rand.New(rand.NewPCG(seed, 8)), model: oracle.NewPossible()}
	require.NoError(t, r.open())
	for i := range count {
		if err := r.fill(); err != nil {
			require.NoError(t, err, "seed %d, fill %d", seed, i)
		}
	}
	waitUntilIdle(r.d)
	require.NoError(t, r.d.Close())
	t.Logf("%d fills: %d writes, %d refused for lack of space, %d times reopened, 0 lost",
		count, r.next, r.refused, r.finals)
}

// TestFillsOfARealDisk uses this disk if it cannot mount a real one.
func TestFillsOfASimulatedDisk(t *testing.T) {
	skipInShortRace(t) // the real one is filled by the same goroutines
	runFills(t, simulatedDisk(), 2)
}
