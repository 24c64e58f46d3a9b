package db

import (
	stderrors "errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sievedb/sievedb/internal/crashtest/order"
	"github.com/sievedb/sievedb/internal/vfs"
	"github.com/stretchr/testify/require"
)

// fullDisk is a disk that is full from an operation on, until there is space.
type fullDisk struct {
	mem     *vfs.Mem
	checker *order.FS
	space   atomic.Bool
	first   atomic.Pointer[vfs.Op] // the first operation that failed
}

func newFullDisk(from uint64) *fullDisk {
	f := &fullDisk{mem: vfs.NewMem()}
	f.checker = order.New(vfs.NewFaulty(f.mem, func(op vfs.Op) *vfs.Fault {
		if op.Index < from || f.space.Load() {
			return nil
		}
		fault := noSpaceFault(op)
		if fault != nil {
			f.first.CompareAndSwap(nil, &op)
		}
		return fault
	}))
	return f
}

// fillUp writes on a disk that is full from an operation on, then there is space.
// Reads work all the time, writes again behind that. The error is what went
// wrong; final says that the store asked to be opened again.
func fillUp(seed, from uint64) (final bool, err error) {
	disk := newFullDisk(from)
	r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(seed, 2)), readsMustWork: true}
	d, err := Open("db", crashOptions(disk.checker, 0))
	if err != nil {
		if !stderrors.Is(err, ErrNoSpace) {
			return false, fmt.Errorf("Open says %w", err)
		}
		disk.space.Store(true)
		if d, err = Open("db", crashOptions(disk.checker, 0)); err != nil {
			return false, fmt.Errorf("Open, with space, says %w", err)
		}
	}
	final, err = useFullDisk(d, disk, r)
	crashed := disk.mem.Crash()
	_ = d.Close()
	if v := disk.checker.Violations(); err == nil && len(v) > 0 {
		err = fmt.Errorf("order of operations: %s", strings.Join(v, "; "))
	}
	for _, left := range []*vfs.Mem{crashed, disk.mem} {
		if err == nil {
			d, err = Open("db", crashOptions(left, 0))
		}
		if err != nil {
			return final, err
		}
		rest(d)
		if err = r.readAll(d); err == nil {
			err = strayFilesAtRest(d, left)
		}
		if cerr := d.Close(); err == nil {
			err = cerr
		}
	}
	return final, err
}

func useFullDisk(d *DB, disk *fullDisk, r *faultRun) (final bool, err error) {
	failures := 0
	for range 140 {
		err := r.write(d, true)
		if err == nil {
			continue
		}
		if !stderrors.Is(err, ErrNoSpace) || !stderrors.Is(err, syscall.ENOSPC) {
			return false, fmt.Errorf("a write says %w", err)
		}
		if failures++; failures == 5 {
			break
		}
	}
	if err := r.readAll(d); err != nil {
		return false, fmt.Errorf("on the full disk: %w", err)
	}
	disk.space.Store(true)
	for written := 0; written < 60; { // those that fail wait for a flush that is being tried again
		err := r.write(d, true)
		switch {
		case err == nil:
			written++
		case stderrors.Is(err, ErrReadOnly):
			return true, r.readAll(d)
		default:
			d.pause(5 * time.Millisecond)
		}
	}
	if err := d.Flush(); err != nil {
		return false, fmt.Errorf("with space: %w", err)
	}
	rest(d)
	if err := strayFilesAtRest(d, disk.mem); err != nil {
		return false, err
	}
	return false, r.readAll(d)
}

// The disk is full from any operation on, and later is not. Writes fail with
// ErrNoSpace, reads go on, and once there is space the store goes on by itself:
// a log or MANIFEST that ended is replaced, half-made files are gone, and
// nothing acknowledged is lost in a power cut.
func TestAFullDiskIsToldAndWritesGoOnOnceThereIsSpace(t *testing.T) {
	testSeeds(t, func(t *testing.T, seed uint64) {
		counter := newFullDisk(1 << 62)
		faulty := counter.checker.Unwrap().(*vfs.Faulty)
		d, err := Open("db", crashOptions(counter.checker, 0))
		require.NoError(t, err)
		r := &faultRun{model: newFaultModel(), rnd: rand.New(rand.NewPCG(seed, 2)), readsMustWork: true}
		_, err = useFullDisk(d, counter, r)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		total, step := int(faulty.Ops()), 1
		if raceEnabled {
			step = 11
		}
		before := runtime.NumGoroutine()
		var finals atomic.Int64
		require.NoError(t, runFaultCases(total/step, 10, func(i int) error {
			final, err := fillUp(seed, uint64(i*step))
			if final {
				finals.Add(1)
			}
			if err != nil {
				return fmt.Errorf("seed %d, full from operation %d on: %w", seed, i*step, err)
			}
			return nil
		}))
		t.Logf("seed %d: %d runs, of which %d asked to be opened again", seed, total/step, finals.Load())
		require.LessOrEqual(t, finals.Load(), int64(max(2, total/step/50)), "only a failure at the renaming of CURRENT is final")
		eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	})
}
