package crashtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/batch"
	"github.com/sievedb/sievedb/internal/disk/version"
	"github.com/sievedb/sievedb/internal/disk/wal"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/internal/test/crashtest/cuts"
	"github.com/sievedb/sievedb/internal/test/crashtest/oracle"
	"github.com/sievedb/sievedb/internal/test/crashtest/recorder"
	"github.com/sievedb/sievedb/internal/test/fixture"
	"github.com/sievedb/sievedb/internal/test/race"
	"github.com/sievedb/sievedb/internal/test/storetest"
	"github.com/sievedb/sievedb/vfs"
)

// crashOptions returns options with the smallest sizes, so that a short run flushes, compacts and
// starts MANIFESTs often, and each recovery is quick. The seed chooses among shapes of stores.
func crashOptions(fsys vfs.FS, seed uint64) *db.Options {
	o := &db.Options{
		FS: fsys, Memtables: db.MemtableOptions{Size: 4 << 10}, Tables: db.TableOptions{Size: 4 << 10, BlockSize: 512},
		Compaction: db.CompactionOptions{MaxLevelBase: 16 << 10, L0Trigger: 2},
		Cache:      db.CacheOptions{Size: 64 << 10, MaxOpenFiles: 20}, Limits: db.LimitOptions{ManifestSize: 4 << 10},
	}
	switch seed % 3 {
	case 1:
		o.Compaction.MaxConcurrent, o.Memtables.MaxWaiting, o.Tables.Compression = 2, 3, db.NoCompression
	case 2:
		o.Memtables.MaxWaiting, o.Tables.RestartInterval, o.Tables.Compression = 1, 1, db.ZstdCompression
	}
	if seed%2 == 0 {
		o.Compaction.Filter = func(key, value []byte) ([]byte, bool) {
			return bytes.Clone(value), !bytes.HasPrefix(key, []byte(droppedPrefix))
		}
	}
	if seed%2 == 1 { // the least memory, so that memtables are small and yield
		o.Resources, _ = db.NewResources(db.ResourcesOptions{MaxStores: 1, MemtableSize: 64 << 10, MaxConcurrent: 1})
	}
	if seed%5 < 2 {
		o.Tables.SeparateValues = 25
	}
	if seed%4 < 2 {
		o.Expiry.Prefixes = [][]byte{[]byte("key00"), []byte("pair01"), []byte("pair02"), []byte(expiringPrefix)}
		o.Expiry.Clock = crashClock
	}
	return o
}

// expiringPrefix begins keys whose values expire at once. The oracle does not know them.
const expiringPrefix = "expiring"

// crashTime is the time of crashClock, in milliseconds.
var crashTime atomic.Int64

// crashClock is a clock that moves by 2 ms with each reading. So what lives for 1 ms has expired at the next.
func crashClock() time.Time { return time.UnixMilli(1_700_000_000_000 + crashTime.Add(2)) }

// longTTL is not over in any test that uses crashClock.
const longTTL = 100 * 365 * 24 * time.Hour

// droppedPrefix begins the keys whose values the filter of crashOptions drops. The oracle does not know them.
const droppedPrefix = "dropped"

// crashWorkload writes from several goroutines, reopens the store now and then, and records its batches.
type crashWorkload struct {
	seed    uint64
	keys    int
	batches map[[2]int]*oracle.Batch // by writer and number
	metrics db.Metrics               // sums
	// fewest is the least number of recorded operations. Groups of writers share appends to the log, on some machines
	// most of them, so the store is reopened and written again until there are as many. opened counts the opens.
	fewest, opened int
	// buffered makes most of the batches that are not synced Buffered ones.
	buffered bool
	// upgrades keeps upgrading the filters of tables; upgraded counts the upgraded tables.
	upgrades bool
	upgraded int
	// logDirs are the values of Options.LogDir, one opening after another, around; nil for none.
	logDirs []string
	// checkpoints makes one now and then; copies has those that were made.
	checkpoints bool
	copies      []crashCopy
	// separated keeps values apart from their keys, and collects them; collections has when.
	separated   bool
	collections collections
}

// collections are the numbers of operations before each collection of values began and after it ended.
type collections struct {
	mu    sync.Mutex
	spans [][2]int
}

// listen notes the collections of a store.
func (c *collections) listen(o *db.Options, r *recorder.FS) {
	begun := 0
	o.EventListener = &db.EventListener{}
	o.EventListener.CompactionBegin = func(i db.CompactionInfo) {
		if i.InputLevel == version.ValuesLevel {
			begun = r.Len()
		}
	}
	o.EventListener.CompactionEnd = func(i db.CompactionInfo) {
		if i.InputLevel == version.ValuesLevel && i.Err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.spans = append(c.spans, [2]int{begun, r.Len()})
		}
	}
}

// amid reports whether an operation was one of a collection.
func (c *collections) amid(op int) bool {
	return slices.ContainsFunc(c.spans, func(s [2]int) bool { return s[0] <= op && op <= s[1] })
}

// crashCopy is a checkpoint and the numbers of operations before it began and after it ended.
type crashCopy struct {
	dir        string
	begun, end int
}

// record runs the workload and returns its trace and a judge of its history.
func (w *crashWorkload) record(t testing.TB, total, opens int) (*recorder.Trace, *crashJudge) {
	r := recorder.New(recorder.Image{})
	w.run(t, r, total, opens)
	trace := r.Trace()
	return trace, &crashJudge{seed: w.seed, history: w.history(t, trace), logDirs: w.logDirs}
}

// run has three writers commit about total batches, or more.
//
//race:long
func (w *crashWorkload) run(t testing.TB, r *recorder.FS, total, opens int) {
	const writers = 3
	w.batches = map[[2]int]*oracle.Batch{}
	for round := 0; round < opens || r.Len() < w.fewest; round++ {
		w.opened++
		o := crashOptions(fixture.LogsOf(w.seed, r), w.seed)
		if len(w.logDirs) > 0 {
			o.LogDir = w.logDirs[round%len(w.logDirs)]
		}
		if w.separated {
			o.Tables.SeparateValues = 25
			w.collections.listen(o, r)
		}
		d, err := db.Open("db", o)
		require.NoError(t, err)
		var group sync.WaitGroup
		var mu sync.Mutex
		for writer := range writers {
			from := round * (total / writers / opens)
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(w.seed, uint64(writer)<<32|uint64(from)))
				for i := range total / writers / opens {
					b := w.batch(rnd, writer, from+i+1)
					mu.Lock()
					w.batches[[2]int{writer, b.Number}] = b
					mu.Unlock()
					if err := w.apply(r, d, b); err != nil {
						panic(err)
					}
					if writer == 0 && i%50 == 49 {
						w.reshape(d, i)
					}
					if w.checkpoints && writer == 0 && i%40 == 39 {
						w.copy(r, d)
					}
				}
			})
		}
		if w.upgrades {
			w.upgraded += w.upgradeUntil(t, d, &group)
		}
		group.Wait()
		if w.separated {
			storetest.WaitUntilIdle(d)
		}
		m := d.Metrics()
		w.metrics.Flushes.Count += m.Flushes.Count
		w.metrics.Compactions.Count += m.Compactions.Count
		w.metrics.Compactions.TrivialMoves += m.Compactions.TrivialMoves
		require.NoError(t, d.Close())
	}
}

// copy makes a checkpoint.
func (w *crashWorkload) copy(r *recorder.FS, d *db.DB) {
	c := crashCopy{dir: fmt.Sprintf("copy%d", len(w.copies)), begun: r.Len()}
	if _, err := d.Checkpoint(context.Background(), c.dir, &db.CheckpointOptions{Flush: len(w.copies)%3 == 2}); err != nil {
		panic(err)
	}
	c.end = r.Len()
	w.copies = append(w.copies, c)
}

// reshape changes the shape of the store while it is open.
func (w *crashWorkload) reshape(d *db.DB, i int) {
	o := d.Options()
	next := crashOptions(nil, w.seed+uint64(i))
	o.Memtables, o.Tables, o.Compaction = next.Memtables, next.Tables, next.Compaction
	if w.separated {
		o.Tables.SeparateValues = 25
	}
	if err := d.SetOptions(&o); err != nil {
		panic(err)
	}
	if w.separated { // a merge finds the values that were replaced, and one after the other is collected
		if err := d.Compact(context.Background(), nil, nil); err != nil {
			panic(err)
		}
	}
}

// upgradeUntil upgrades to one policy after another until the group is done and some table was
// upgraded. While the group writes, compactions may claim all tables.
func (w *crashWorkload) upgradeUntil(t testing.TB, d *db.DB, group *sync.WaitGroup) (tables int) {
	written := make(chan struct{})
	go func() { group.Wait(); close(written) }()
	for i := 0; ; i++ {
		policy := []filter.Policy{filter.FusePolicy{}, filter.NewBloomPolicy(10), nil}[i%3]
		r, err := d.UpgradeFilters(context.Background(), policy, nil)
		require.NoError(t, err)
		tables += r.Upgraded
		select {
		case <-written:
			if tables > 0 {
				return tables
			}
		default:
		}
	}
}

func (w *crashWorkload) batch(rnd *rand.Rand, writer, number int) *oracle.Batch {
	b := &oracle.Batch{Writer: writer, Number: number, Sync: rnd.IntN(10) == 0, Acked: oracle.Never}
	b.Buffered = w.buffered && !b.Sync && number%4 != 0
	for range 1 + rnd.IntN(3) {
		op := oracle.Op{Key: fmt.Sprintf("key%04d", rnd.IntN(w.keys)), Delete: rnd.IntN(4) == 0}
		if !op.Delete {
			op.Value = fmt.Sprintf("%d/%d/%s", writer, number, strings.Repeat("v", rnd.IntN(60)))
		}
		b.Ops = append(b.Ops, op)
	}
	if rnd.IntN(200) == 0 { // now and then a record of several sectors, which may span two blocks
		b.Ops = append(b.Ops, oracle.Op{Key: "long", Value: fmt.Sprintf("%d/%d/%s", writer, number, strings.Repeat("l", 2000+rnd.IntN(2000)))})
	}
	return b
}

func (w *crashWorkload) apply(r *recorder.FS, d *db.DB, b *oracle.Batch) error {
	var batch db.Batch
	for i, op := range b.All() {
		switch {
		case op.Delete:
			batch.Delete([]byte(op.Key))
		case i%2 == 0 && under(d, []byte(op.Key)):
			batch.PutTTL([]byte(op.Key), []byte(op.Value), longTTL)
		default:
			batch.Put([]byte(op.Key), []byte(op.Value))
		}
	}
	batch.Put(fmt.Appendf(nil, "%s%d", droppedPrefix, b.Number%w.keys), []byte(droppedPrefix))
	if expiring := fmt.Appendf(nil, "%s%d", expiringPrefix, b.Number%w.keys); under(d, expiring) {
		batch.PutTTL(expiring, bytes.Repeat([]byte("e"), 60), time.Millisecond)
	}
	b.Issued = r.Len()
	wo := &db.WriteOptions{NoSync: !b.Sync, Buffered: b.Buffered}
	var err error
	if b.Number%3 == 0 {
		err = storetest.ApplyInTransaction(d, &batch, wo)
	} else {
		err = d.Apply(&batch, wo)
	}
	if err == nil {
		b.Acked = r.Len()
	}
	return err
}

// history derives the commit order from the logs.
func (w *crashWorkload) history(t testing.TB, trace *recorder.Trace) *oracle.History {
	var ordered []*oracle.Batch
	seq := uint64(0)
	trace.FilesNamed(".log", func(name string, data []byte) {
		if strings.Contains(name, ".checkpoint") {
			return
		}
		log := wal.NewReader(strings.NewReader(string(data)), int64(len(data)), wal.ReaderOptions{})
		for {
			record, err := log.Next()
			if err != nil {
				return
			}
			r, err := batch.NewReader(record)
			require.NoError(t, err)
			require.Greater(t, r.Seq, seq, "sequence numbers rise from log to log")
			for {
				_, key, value, s, ok, err := r.Next()
				require.NoError(t, err)
				if !ok {
					break
				}
				seq = s
				var writer, number int
				if n, _ := fmt.Sscanf(string(key), oracle.MarkerKey(0)[:len("!writer")]+"%d", &writer); n == 1 {
					_, err := fmt.Sscan(string(value), &number)
					require.NoError(t, err)
					ordered = append(ordered, w.batches[[2]int{writer, number}])
				}
			}
		}
	})
	require.Len(t, ordered, len(w.batches), "each batch is in the logs once")
	return oracle.New(ordered)
}

// addOps adds operations to a batch.
func addOps(b *db.Batch, ops []oracle.Op) {
	for _, op := range ops {
		if op.Delete {
			b.Delete([]byte(op.Key))
		} else {
			b.Put([]byte(op.Key), []byte(op.Value))
		}
	}
}

// under reports whether values under the key of d have a time to live.
func under(d *db.DB, key []byte) bool {
	return slices.ContainsFunc(d.ExpiryPrefixes(), func(p []byte) bool { return bytes.HasPrefix(key, p) })
}

// dump returns all entries of the store.
func dump(d *db.DB) ([]oracle.Entry, error) {
	it, err := d.NewIterator(nil)
	if err != nil {
		return nil, err
	}
	var entries []oracle.Entry
	for ok := it.First(); ok; ok = it.Next() {
		switch {
		case strings.HasPrefix(string(it.Key()), expiringPrefix):
			return nil, fmt.Errorf("%s is shown after its time", it.Key())
		case !strings.HasPrefix(string(it.Key()), droppedPrefix):
		case string(it.Value()) != droppedPrefix:
			return nil, fmt.Errorf("%s has the value %q", it.Key(), it.Value())
		default:
			continue
		}
		entries = append(entries, oracle.Entry{Key: string(it.Key()), Value: string(it.Value())})
	}
	if err := it.Err(); err != nil {
		_ = it.Close()
		return nil, err
	}
	return entries, it.Close()
}

// manifestRolls counts the MANIFESTs that a run started, except for those that its opens wrote.
func manifestRolls(trace *recorder.Trace, opens int) int {
	n := -opens
	for _, op := range trace.Ops {
		if kind, _, ok := base.ParseFileName(filepath.Base(op.Name)); ok && kind == base.FileManifest && op.Kind == wrap.OpCreate {
			n++
		}
	}
	return n
}

// inRun returns a number of a full run or of a sampled one.
func inRun(full, inSample int) int {
	if race.Sampled() {
		return inSample
	}
	return full
}

// cutsToTry returns the flag -crash.limit, or else the number of recoveries of a full run or of a sampled one.
func cutsToTry(full, inSample int) int {
	if *cuts.Limit > 0 {
		return *cuts.Limit
	}
	return inRun(full, inSample)
}

// judgeAll calls judge for the states of a trace.
func (j *crashJudge) judgeAll(t *testing.T, what string, trace *recorder.Trace, limit int,
	judge func(s recorder.State, cut int, m recorder.Model) error) {
	start := time.Now()
	n, err := cuts.EachState(trace, cuts.Models(t), j.seed, limit, judge)
	cuts.RequireNoFailure(t, err)
	t.Logf("%s, seed %d, %d states: %d recoveries (%d opens) and %d repeats in %v; %d refused as damage",
		what, j.seed, n, j.recoveries.Load(), j.opens.Load(), j.repeated.Load(), time.Since(start).Round(time.Millisecond), j.refused.Load())
}
