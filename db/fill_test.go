package db

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/manifest"
	"github.com/sievedb/sievedb/internal/vfs/wrap"
	"github.com/sievedb/sievedb/vfs"
)

var (
	fillCount = flag.Int("fill.count", 20, "fills of the test that fills a disk")
	fillSeed  = flag.Uint64("fill.seed", 0, "its seed; 0 takes a random one")
)

const (
	fillDiskSize = 16 << 20
	// fillBallast is what is removed once the disk is full. A compaction needs
	// space for what it writes while what it reads is still there: that of the whole
	// database, if level 0 is what it reads.
	fillBallast = fillDiskSize / 2
	fillKeys    = 5000 // at 4 KiB each they are more than the disk holds
)

// fillDisk is a disk of fillDiskSize bytes.
type fillDisk struct {
	fs  vfs.FS
	dir string // of the database
	// ballast makes a file of so many bytes beside the database, or removes it.
	ballast func(sizeBytes int) error
}

// simulatedDisk is a disk in memory. As on a real one, what a file holds is gone
// when it is removed, and a write that does not fit goes as far as it can.
func simulatedDisk() fillDisk {
	mem := vfs.NewMem()
	var ballast atomic.Int64
	used := func() int64 {
		sum := ballast.Load()
		for _, dir := range []string{"db", filepath.Join("db", manifest.LostDir)} {
			names, _ := mem.List(dir)
			for _, name := range names {
				if info, err := mem.Stat(filepath.Join(dir, name)); err == nil {
					sum += info.Size()
				}
			}
		}
		return sum
	}
	full := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		if op.Kind != wrap.OpWrite {
			return nil
		}
		if space := fillDiskSize - used(); space < int64(op.Length) {
			return &wrap.Fault{Err: syscall.ENOSPC, Short: int(max(0, space))}
		}
		return nil
	})
	return fillDisk{fs: full, dir: "db", ballast: func(sizeBytes int) error {
		ballast.Store(int64(sizeBytes))
		return nil
	}}
}

// fillRun fills a disk again and again with one database.
type fillRun struct {
	disk    fillDisk
	rnd     *rand.Rand
	model   *faultModel // of keys; a value is known by its number
	d       *DB
	next    uint64
	refused int // writes that said ErrNoSpace
	finals  int // times that the store asked to be opened again
}

func (r *fillRun) open() (err error) {
	r.d, err = Open(r.disk.dir, &Options{
		FS: r.disk.fs, Memtables: MemtableOptions{Size: 256 << 10},
		Tables: TableOptions{Size: 256 << 10, Compression: NoCompression}, Compaction: CompactionOptions{MaxLevelBase: 1 << 20},
		Cache: CacheOptions{Size: 256 << 10},
	})
	return err
}

func fillKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// fillValue is the value of a number: 1 to 8 KiB that start with it.
func fillValue(number uint64) []byte {
	rnd := rand.New(rand.NewPCG(number, 7))
	v := make([]byte, 1<<10+rnd.IntN(7<<10))
	for i := 0; i+8 <= len(v); i += 8 {
		binary.LittleEndian.PutUint64(v[i:], rnd.Uint64())
	}
	binary.BigEndian.PutUint64(v, number)
	return v
}

// numberOf is the number of a value as the model has it, "" for none.
func numberOf(v []byte) string {
	if len(v) < 8 {
		return fmt.Sprintf("%d bytes", len(v))
	}
	number := binary.BigEndian.Uint64(v)
	if string(fillValue(number)) != string(v) {
		return fmt.Sprintf("not what %d was", number)
	}
	return strconv.FormatUint(number, 10)
}

// write puts a value at a random key.
func (r *fillRun) write() error {
	r.next++
	key, wo := r.rnd.IntN(fillKeys), &WriteOptions{NoSync: r.rnd.IntN(4) > 0}
	number := strconv.FormatUint(r.next, 10)
	r.model.begun(key, number)
	err := r.d.Put(fillKey(key), fillValue(r.next), wo)
	if err == nil {
		r.model.acked(key, number)
	}
	return err
}

func (r *fillRun) delete(key int) error {
	r.model.begun(key, "")
	err := r.d.Delete(fillKey(key), NoSync)
	if err == nil {
		r.model.acked(key, "")
	}
	return err
}

// untilFull writes until the disk has been full for a few writes.
func (r *fillRun) untilFull() error {
	for refused, writes := 0, 0; refused < 5; writes++ {
		switch err := r.write(); {
		case err == nil:
		case errors.Is(err, ErrNoSpace):
			refused++
		default:
			return fmt.Errorf("a write on the full disk says %w", err)
		}
		if writes > 20*fillKeys {
			return errors.New("the disk is never full")
		}
	}
	r.refused += 5
	return nil
}

// insist repeats what fails for want of space, which the background may still be
// giving back, and opens the database again where it asks for that.
func (r *fillRun) insist(do func() error) error {
	for start := time.Now(); ; {
		err := do()
		if err == nil {
			return nil
		}
		if time.Since(start) > 5*time.Minute { // only a store that never goes on needs it
			return fmt.Errorf("there is space, but: %w", err)
		}
		switch {
		case errors.Is(err, ErrReadOnly):
			r.finals++
			_ = r.d.Close()
			if err := r.open(); err != nil {
				return err
			}
		case !errors.Is(err, ErrNoSpace):
			return err
		}
		r.d.pause(5 * time.Millisecond)
	}
}

// readAll compares all that is there with the model.
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
		if err := r.model.check(key, number, number); err != nil {
			return err
		}
		if key%10 != 0 {
			continue
		}
		v, err := r.d.Get(fillKey(key))
		if err == ErrNotFound && number == "" {
			continue
		}
		if err != nil || numberOf(v) != number {
			return fmt.Errorf("Get of key %d: %s, %v; the iterator shows %s", key, numberOf(v), err, number)
		}
	}
	return nil
}

// fill fills the disk, reads, makes space, goes on, makes the database small, and
// opens it again.
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
			if !errors.Is(err, ErrNoSpace) {
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
			return fmt.Errorf("going on: %w", err)
		}
	}
	return r.shrink()
}

// shrink deletes nine keys of ten, gives the space back, and opens the database
// again.
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

// runFills fills the disk so many times.
func runFills(t *testing.T, disk fillDisk, count int) {
	seed := *fillSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 40)
	}
	t.Logf("seed %d", seed)
	r := &fillRun{disk: disk, rnd: rand.New(rand.NewPCG(seed, 8)), model: newFaultModel()}
	require.NoError(t, r.open())
	for i := range count {
		if err := r.fill(); err != nil {
			require.NoError(t, err, "seed %d, fill %d", seed, i)
		}
	}
	waitUntilIdle(r.d)
	require.NoError(t, r.d.Close())
	t.Logf("%d fills: %d writes, %d refused for want of space, %d times to be opened again, 0 lost", count, r.next, r.refused, r.finals)
}

// The disk of the test below, where no real one is to be had.
func TestFillsOfASimulatedDisk(t *testing.T) { runFills(t, simulatedDisk(), 2) }
