package db_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/vfs"
)

// loadWorkload writes batches and commits loads one after the other, so that the order of the
// commits is known. Batches are written while loads are in progress.
type loadWorkload struct {
	crashWorkload
	order []*oracle.Batch
	loads uint64
}

func (w *loadWorkload) run(t testing.TB, r *recorder.FS, total, opens int) {
	w.batches = map[[2]int]*oracle.Batch{}
	rnd := rand.New(rand.NewPCG(w.seed, 9))
	for range opens {
		d := openDir(t, "db", crashOptions(r, w.seed))
		for end := len(w.order) + total/opens; len(w.order) < end; {
			w.load(t, r, d, rnd)
		}
		w.loads += d.Metrics().Loads.Count
		w.metrics.Compactions.Count += d.Metrics().Compactions.Count
		require.NoError(t, d.Close())
	}
}

// loading is a load or a bulk transaction.
type loading interface {
	Put(key, value []byte) error
	Delete(key []byte) error
	Commit() error
	Close() error
}

// begin begins a load, whose entries must be in order, or a bulk transaction.
func (w *loadWorkload) begin(t testing.TB, d *db.DB, rnd *rand.Rand) (l loading, inOrder bool) {
	if rnd.IntN(2) == 0 {
		return newLoader(t, d), true
	}
	return newBulk(t, d), false
}

// load begins a load, writes some batches, and commits the load or closes it. The marker sorts
// before all other entries of the load.
func (w *loadWorkload) load(t testing.TB, r *recorder.FS, d *db.DB, rnd *rand.Rand) {
	l, inOrder := w.begin(t, d, rnd)
	b := &oracle.Batch{Sync: true, Acked: oracle.Never}
	for _, key := range slices.Sorted(slices.Values(rnd.Perm(w.keys)[:1+rnd.IntN(w.keys/2)])) {
		op := oracle.Op{Key: fmt.Sprintf("key%04d", key), Delete: rnd.IntN(6) == 0}
		if !op.Delete {
			op.Value = fmt.Sprintf("load %d %s", len(w.order), strings.Repeat("l", rnd.IntN(200)))
		}
		b.Ops = append(b.Ops, op)
	}
	// The marker's value is the number that the load will have as a batch.
	batches := rnd.IntN(30)
	b.Number = len(w.order) + batches + 1
	entries := b.All()
	entries = append(entries[len(entries)-1:], entries[:len(entries)-1]...)
	if !inOrder {
		for _, op := range entries {
			require.NoError(t, l.Put([]byte(op.Key), []byte("replaced by the same transaction"+strings.Repeat("r", 100))))
		}
		rnd.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
	put := func(op oracle.Op) {
		if op.Delete {
			require.NoError(t, l.Delete([]byte(op.Key)))
		} else {
			require.NoError(t, l.Put([]byte(op.Key), []byte(op.Value)))
		}
	}
	half := rnd.IntN(len(entries))
	for _, op := range entries[:half] {
		put(op)
	}
	for range batches {
		batch := w.batch(rnd, 0, len(w.order)+1)
		w.order = append(w.order, batch)
		require.NoError(t, w.apply(r, d, batch))
	}
	for _, op := range entries[half:] {
		put(op)
	}
	if rnd.IntN(5) == 0 {
		require.NoError(t, l.Close())
		return
	}
	w.order = append(w.order, b)
	b.Issued = r.Len()
	require.NoError(t, l.Commit())
	b.Acked = r.Len()
}

// The power fails at every operation of a run with loads. After its Commit, a load is there as a
// whole, with all earlier writes. A load that was not committed leaves nothing.
func TestCrashAtEveryOperationOfLoads(t *testing.T) {
	total, limit := 1000, 2000
	if sampled() {
		total, limit = 300, 120
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		start := time.Now()
		w := &loadWorkload{crashWorkload: crashWorkload{seed: seed, keys: 150}}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 2)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: oracle.New(w.order)}
		t.Logf("seed %d: %d operations, %d batches, %d of them loads, %d compactions", seed, len(trace.Ops), len(w.order), w.loads, w.metrics.Compactions.Count)
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash of loads", j, start)
	})
}

// A load whose edit may be in force although its Commit failed must not hide writes that were made after the failure.
func TestWritesAfterAFailedLoadAreKept(t *testing.T) {
	mem := vfs.NewMem()
	var failing atomic.Bool
	fsys := wrap.NewFaulty(mem, func(op wrap.Op) *wrap.Fault {
		kind, _, ok := base.ParseFileName(strings.TrimPrefix(op.Name, "db/"))
		if ok && kind == base.FileManifest && op.Kind == wrap.OpSync && failing.CompareAndSwap(true, false) {
			return &wrap.Fault{Err: syscall.ENOSPC}
		}
		return nil
	})
	o := testOptions(fsys)
	d := openTest(t, o)
	require.NoError(t, d.Put([]byte("k"), []byte("before"), db.Sync))
	require.NoError(t, d.Flush())
	l := newLoader(t, d)
	require.NoError(t, l.Put([]byte("k"), []byte("loaded")))
	require.NoError(t, l.Put([]byte("l"), []byte("loaded")))
	failing.Store(true)
	require.ErrorIs(t, l.Commit(), db.ErrNoSpace)
	require.False(t, failing.Load())
	requireValue(t, d, []byte("k"), []byte("before"))
	require.NoError(t, d.Put([]byte("k"), []byte("after"), db.Sync))
	requireValue(t, d, []byte("k"), []byte("after"))

	// The system may have written the data that it failed to sync.
	after := openTest(t, testOptions(copyFS(t, mem)))
	require.Positive(t, after.Metrics().Total().Tables)
	requireValue(t, after, []byte("l"), []byte("loaded"))
	state, err := dump(after)
	require.NoError(t, err)
	require.Equal(t, []oracle.Entry{{Key: "k", Value: "after"}, {Key: "l", Value: "loaded"}}, state)
	require.NoError(t, after.Compact(t.Context(), nil, nil))
	requireValue(t, after, []byte("k"), []byte("after"))

	// Once there is space, nothing of the load is left.
	require.NoError(t, d.Flush())
	eventually(t, func() bool { return filesOf(t, mem, base.FileTable) == 2 })
	requireAbsent(t, d, []byte("l"))
	require.NoError(t, d.Close())
	d = openTest(t, testOptions(mem))
	requireValue(t, d, []byte("k"), []byte("after"))
	requireAbsent(t, d, []byte("l"))
}
