package db

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/work/compact"
	"github.com/sievedb/sievedb/vfs"
)

func TestCloseEndsAllPieces(t *testing.T) {
	g := newGate()
	o := piecesOptions(g.fs(), 3)
	o.Memtables.Size = 1 << 20
	d := mustOpen(t, o)
	for range 2 {
		for k := range 9000 {
			require.NoError(t, d.Put(testKey(k), []byte("v"), NoSync))
		}
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	g.closed.Store(true)
	o.Compaction.L0Trigger = 2
	d = mustOpen(t, o)
	for range 3 {
		<-g.arrived
	}
	closed := make(chan error)
	go func() { closed <- d.Close() }()
	<-d.closing
	g.closed.Store(false)
	close(g.open)
	require.NoError(t, <-closed)
	require.Zero(t, d.Metrics().Compactions.Count,
		"each piece has more entries than it merges between its checks for Close")
	require.Zero(t, d.compactor.Status().Slots)

	o.Compaction.L0Trigger = 1000
	d = openTest(t, o)
	require.Len(t, d.state().Version.Levels[0].Files, 2)
	require.NoError(t, strayFilesWhenIdle(d, d.fs))
	requireValue(t, d, testKey(8999), []byte("v"))
}

// If one piece fails, the others end too, and none of the written tables remains.
func TestAFailureOfOnePieceEndsTheOthers(t *testing.T) {
	for at := range 24 {
		t.Run(fmt.Sprintf("creation %d", at), func(t *testing.T) {
			var failing atomic.Bool
			var creations atomic.Int64
			mem := vfs.NewMem()
			d := openTest(t, piecesOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
				if failing.Load() && op.Kind == wrap.OpCreate && creations.Add(1) == int64(at)+1 {
					return &wrap.Fault{Err: syscall.ENOSPC}
				}
				return nil
			}), 3))
			for range 2 {
				fill(t, d, 0, 1000)
				require.NoError(t, d.Flush())
			}
			c := claimLevel0(t, d)
			failing.Store(true)
			err := d.compactor.CompactClaimed(background, c)
			require.ErrorIs(t, err, ErrNoSpace)
			require.NotErrorIs(t, err, compact.ErrStopped)
			require.NoError(t, strayFilesWhenIdle(d, mem))
			require.Zero(t, d.compactor.Status().Slots)
			require.Zero(t, d.compactor.Status().Waiting)
			require.NoError(t, d.Compact(t.Context(), nil, nil))
			for k := range 1000 {
				requireValue(t, d, testKey(k), testValue(k))
			}
		})
	}
}

// Each operation of a divided compaction fails, once or from then on. The compaction has no effect,
// or it is complete when the database is reopened.
func TestAFailureAtAnyOperationOfADividedCompactionLosesNothing(t *testing.T) {
	const keys = 400
	full := vfs.NewMem()
	d := mustOpen(t, piecesOptions(full, 3))
	for range 2 {
		fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())

	step := int64(1)
	if sampled() {
		step = 11
	}
	failures, done := 0, 0
	for at := int64(1); done < 2; at += step {
		for _, kind := range []error{syscall.EIO, syscall.ENOSPC} {
			for _, sticky := range []bool{false, true} {
				var begun atomic.Bool
				var ops, ofTables atomic.Int64
				mem := copyFS(t, full)
				d := openTest(t, piecesOptions(wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
					if !begun.Load() {
						return nil
					}
					n := ops.Add(1)
					if n != at && (n < at || !sticky) {
						return nil
					}
					if filepath.Ext(op.Name) == ".ldb" && op.Kind != wrap.OpRemove {
						ofTables.Add(1)
					}
					return &wrap.Fault{Err: kind}
				}), 3))
				begun.Store(true)
				err := d.compactor.CompactLevel(t.Context(), 0, nil, nil)
				begun.Store(false)
				if !sticky && ofTables.Load() > 0 { // otherwise files may wait for the next open
					require.NoError(t, strayFilesWhenIdle(d, mem))
				}
				switch {
				case ops.Load() < at: // the compaction had fewer operations
					require.NoError(t, err)
					done++
				case err != nil:
					failures++
					require.ErrorIs(t, err, kind)
					require.NotErrorIs(t, err, compact.ErrStopped)
				}
				for k := range keys {
					requireValue(t, d, testKey(k), testValue(k))
				}
				require.Zero(t, d.compactor.Status().Slots)
				require.Zero(t, d.compactor.Status().Waiting)
				_ = d.Close() // the MANIFEST may have failed
				d = openTest(t, piecesOptions(mem, 3))
				for k := range keys {
					requireValue(t, d, testKey(k), testValue(k))
				}
				require.NoError(t, strayFilesWhenIdle(d, mem))
				require.NoError(t, d.Close())
			}
		}
	}
	require.Greater(t, failures, 400/int(step))
}

// The other pieces need not write tables that will be discarded.
func TestPiecesEndSoonOnceOneHasFailed(t *testing.T) {
	g := newGate()
	var arrivals, creations atomic.Int64
	o := piecesOptions(wrap.NewFaulty(g.fs(), func(op wrap.Op) *wrap.Fault {
		if op.Kind == wrap.OpCreate && g.closed.Load() {
			if arrivals.Add(1) == 1 {
				return &wrap.Fault{Err: syscall.EIO}
			}
			creations.Add(1)
		}
		return nil
	}), 3)
	o.Memtables.Size = 1 << 20
	d := openTest(t, o)
	for range 2 {
		for k := range 9000 {
			require.NoError(t, d.Put(testKey(k), []byte("v"), NoSync))
		}
		require.NoError(t, d.Flush())
	}
	c := claimLevel0(t, d)
	g.closed.Store(true)
	done := make(chan error)
	go func() { done <- d.compactor.CompactClaimed(background, c) }()
	<-g.arrived
	<-g.arrived
	// The failed piece has released its slot.
	eventually(t, func() bool { return d.compactor.Status().Slots == 2 })
	close(g.open)
	require.ErrorIs(t, <-done, syscall.EIO)
	require.Less(t, creations.Load(), int64(10), "of 19 tables")
	g.closed.Store(false)
	require.NoError(t, strayFilesWhenIdle(d, d.fs))
}

// If one piece finds damage, all inputs are set aside, once.
func TestDamageInOnePieceSetsTheInputsAside(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, piecesOptions(mem, 3))
	for range 2 {
		fill(t, d, 0, 1000)
		require.NoError(t, d.Flush())
	}
	require.NoError(t, d.Close())
	table := filepath.Join("db", namesOf(t, mem, base.FileTable)[0])
	data := readFile(t, mem, table)
	data[len(data)/2] ^= 1
	writeFile(t, mem, table, data)

	d = openTest(t, piecesOptions(mem, 3))
	c := claimLevel0(t, d)
	inputs := len(c.AllInputs())
	require.ErrorIs(t, d.compactor.CompactClaimed(background, c), ErrCorruption)
	require.Equal(t, inputs, d.Metrics().Compactions.TablesSetAside)
	require.NoError(t, strayFilesWhenIdle(d, mem))
	require.Error(t, d.compactor.CompactLevel(t.Context(), 0, nil, nil), "the inputs stay set aside")
}

// The index says of some blocks that they end before their last key. The piece that begins with
// such a key would not reach it, so the piece before must report it.
func TestAPieceReportsALastKeyAfterItsSeparator(t *testing.T) {
	var lying atomic.Bool // while the table is written
	isCut := func(key, cut []byte) bool { return len(key) == len(testKey(0)) && len(cut) == len(key)-1 }
	o := piecesOptions(vfs.NewMem(), 2)
	o.Comparer = &Comparer{
		Name: "sievedb.test.lying",
		Compare: func(a, b []byte) int {
			if lying.Load() && isCut(a, b) {
				return -1
			}
			return bytes.Compare(a, b)
		},
		Separator: func(dst, a, _ []byte) []byte {
			if a[len(a)-1] == '3' { // the block holds the keys that end with 0 to 3
				a = a[:len(a)-1]
			}
			return append(dst, a...)
		},
	}
	d := openTest(t, o)
	fill(t, d, 0, 100)
	lying.Store(true)
	require.NoError(t, d.Flush())
	lying.Store(false)
	c := claimLevel0(t, d)
	defer d.compactor.Done(c, nil)
	r, err := d.tables.Ref(c.Inputs[0])
	require.NoError(t, err)
	defer r.Unref()
	var begins [][]byte
	require.NoError(t, r.Stretches(0, func(key []byte, _ uint64) {
		if isCut(testKey(0), key) {
			begins = append(begins, append(bytes.Clone(key), '3'))
		}
	}))
	require.NotEmpty(t, begins)
	for _, key := range begins {
		out, err := d.compactor.MergePiece(c, nil, key)
		require.ErrorIs(t, err, ErrCorruption)
		out.Abandon()
		out, err = d.compactor.MergePiece(c, key, nil)
		require.NoError(t, err)
		require.NotEqual(t, key, base.UserKey(out.Files[0].Smallest), "the piece cannot find its first key")
		out.Abandon()
	}
}

// The power fails at every operation of a compaction that is divided into pieces.
func TestCrashAtEveryOperationOfADividedCompaction(t *testing.T) {
	const keys = 500
	r := recorder.New(recorder.Image{})
	d := mustOpen(t, piecesOptions(r, 3))
	for range 2 {
		fill(t, d, 0, keys)
		require.NoError(t, d.Flush())
	}
	from := len(r.Trace().Ops)
	require.NoError(t, d.compactor.CompactLevel(t.Context(), 0, nil, nil))
	m := d.Metrics()
	require.Greater(t, m.Compactions.Subcompactions, m.Compactions.Count)
	require.NoError(t, d.Close())
	limit := 0
	if sampled() {
		limit = 200
	}
	judge := func(s recorder.State, cut int, m recorder.Model) error {
		if cut < from {
			return nil
		}
		mem := s.Image.Mem()
		d, err := Open("db", piecesOptions(mem, 1))
		if err != nil {
			if m == recorder.M4 && errors.Is(err, ErrCorruption) {
				return nil
			}
			return err
		}
		for k := range keys {
			if v, err := d.Get(testKey(k)); err != nil || string(v) != string(testValue(k)) {
				return errors.Join(fmt.Errorf("key %d is %q", k, v), err, d.Close())
			}
		}
		waitUntilIdle(d)
		return errors.Join(strayFilesWhenIdle(d, mem), d.Close())
	}
	n, err := eachState(r.Trace(), crashModels(t), 1, limit, judge)
	requireNoFailure(t, err)
	t.Logf("%d states", n)
}
