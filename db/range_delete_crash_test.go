package db_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
)

// rangeWorkload writes batches, some of which delete a range, one after the other. Now and then a
// snapshot is open meanwhile, so that tables stay and are removed later.
type rangeWorkload struct {
	crashWorkload
	order                  []*oracle.Batch
	ranges, dropped, swept int // of the ranges, those that removed tables at once or later
}

func (w *rangeWorkload) run(t testing.TB, r *recorder.FS, total, opens int) {
	w.batches = map[[2]int]*oracle.Batch{}
	rnd := rand.New(rand.NewPCG(w.seed, 10))
	for range opens {
		d := openDir(t, "db", crashOptions(r, w.seed))
		for end := len(w.order) + total/opens; len(w.order) < end; {
			for range 19 {
				b := w.batch(rnd, 0, len(w.order)+1)
				w.order = append(w.order, b)
				require.NoError(t, w.apply(r, d, b))
			}
			if w.ranges%4 < 2 {
				w.fill(t, r, d, rnd)
			}
			b := w.batch(rnd, 0, len(w.order)+1)
			w.order = append(w.order, b)
			w.deleteRange(t, r, d, rnd, b)
		}
		require.NoError(t, d.Close())
	}
}

// fill writes all keys, so that many tables have no others.
func (w *rangeWorkload) fill(t testing.TB, r *recorder.FS, d *db.DB, rnd *rand.Rand) {
	for from := 0; from < w.keys; from += 100 {
		b := &oracle.Batch{Number: len(w.order) + 1, Acked: oracle.Never}
		for key := from; key < from+100; key++ {
			b.Ops = append(b.Ops, oracle.Op{Key: fmt.Sprintf("key%04d", key), Value: fmt.Sprintf("%d %x", b.Number, rnd.Uint64())})
		}
		w.order = append(w.order, b)
		require.NoError(t, w.apply(r, d, b))
	}
	require.NoError(t, d.Compact(t.Context(), nil, nil))
}

// deleteRange applies a batch that begins with the deletion of a range.
func (w *rangeWorkload) deleteRange(t testing.TB, r *recorder.FS, d *db.DB, rnd *rand.Rand, b *oracle.Batch) {
	from := rnd.IntN(w.keys)
	to := from + rnd.IntN(w.keys-from)
	if w.ranges%4 < 2 { // wide, and all keys are there
		from, to = rnd.IntN(w.keys/8), w.keys-rnd.IntN(w.keys/8)
	}
	var batch db.Batch
	batch.DeleteRange(fmt.Appendf(nil, "key%04d", from), fmt.Appendf(nil, "key%04d", to))
	own := b.All()
	for _, op := range own {
		if op.Delete {
			batch.Delete([]byte(op.Key))
		} else {
			batch.Put([]byte(op.Key), []byte(op.Value))
		}
	}
	var deletes []oracle.Op
	for key := from; key < to; key++ {
		deletes = append(deletes, oracle.Op{Key: fmt.Sprintf("key%04d", key), Delete: true})
	}
	b.Ops, b.Sync, b.Buffered = append(deletes, b.Ops...), true, false
	var s *db.Snapshot
	if w.ranges%2 == 0 {
		s = d.NewSnapshot()
	}
	b.Issued = r.Len()
	before := d.Untraced().Last()
	require.NoError(t, d.Apply(&batch, db.Sync))
	b.Acked = r.Len()
	w.ranges++
	if d.Untraced().Last() != before {
		w.dropped++
	}
	if s == nil {
		return
	}
	if d.Coordinator().Waiting() {
		w.swept++
	}
	require.NoError(t, s.Close())
}

// The power fails at every operation of a run that deletes ranges. A range is there, or it is
// deleted with all of its keys and together with the other writes of its batch.
func TestCrashAtEveryOperationOfRangeDeletions(t *testing.T) {
	total, limit := 1000, 2000
	if sampled() {
		total, limit = 300, 120
	}
	if *crashLimit > 0 {
		limit = *crashLimit
	}
	testSeeds(t, func(t *testing.T, seed uint64) {
		start := time.Now()
		w := &rangeWorkload{crashWorkload: crashWorkload{seed: seed, keys: 2000}}
		r := recorder.New(recorder.Image{})
		w.run(t, r, total, 2)
		trace := r.Trace()
		j := &crashJudge{seed: seed, history: oracle.New(w.order)}
		t.Logf("seed %d: %d operations, %d batches, %d of them with a range; %d removed tables at once, %d later", seed,
			len(trace.Ops), len(w.order), w.ranges, w.dropped, w.swept)
		require.NotZero(t, w.dropped)
		require.NotZero(t, w.swept)
		_, err := eachState(trace, crashModels(t), seed, limit, j.judge)
		requireNoFailure(t, err)
		logRate(t, "crash of range deletions", j, start)
	})
}
