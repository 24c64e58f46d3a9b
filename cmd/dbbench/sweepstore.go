package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/disk/wrap"
)

// storeRun has the results of a store whose tables have one filter of the sweep.
type storeRun struct {
	sweepPoint
	BitsPerKey      float64 `json:"bits_per_key"`
	FilterBytes     uint64  `json:"filter_bytes"`       // in memory
	MakeNanosPerKey float64 `json:"make_nanos_per_key"` // median of the repetitions
	Absent          passRun `json:"absent_keys"`
	Present         passRun `json:"stored_keys"`

	making []float64 // of each repetition
}

// passRun has the results of one pass of lookups of stored or absent keys, in random order.
type passRun struct {
	Gets   uint64       `json:"gets"`
	Found  uint64       `json:"found"`
	Levels []levelReads `json:"levels"`
	Reads  uint64       `json:"disk_reads"` // of index and data blocks
	// Predicted is the number of disk reads that theory predicts.
	Predicted float64 `json:"predicted_disk_reads"`
	// Micros is the tenth percentile of the time per lookup, over slices of sliceLookups lookups, so the time
	// without disturbances: the median of the repetitions.
	Micros float64 `json:"micros_p10"`

	micros []float64 // of each repetition
}

// levelReads is the number of disk reads from tables of a level.
type levelReads struct {
	Level int    `json:"level"`
	Reads uint64 `json:"disk_reads"`
}

// check verifies that lookups found what they should, which no filter may change.
func (r *storeRun) check() error {
	if r.Present.Found != r.Present.Gets {
		return fmt.Errorf("%s were looked up, but only %s were found", bench.Counted(r.Present.Gets, "stored key"), bench.Grouped(r.Present.Found))
	}
	if r.Absent.Found != 0 {
		return errors.New("absent keys were found; check whether --keys has keys of --absent")
	}
	return nil
}

func (p *passRun) readsPerGet() float64 { return float64(p.Reads) / float64(max(p.Gets, 1)) }

// readsOf returns the disk reads per lookup from a level.
func (p *passRun) readsOf(level int) float64 {
	for _, l := range p.Levels {
		if l.Level == level {
			return float64(l.Reads) / float64(max(p.Gets, 1))
		}
	}
	return 0
}

const (
	// sliceLookups are timed together, since reading the clock takes a good part of the time of
	// a lookup that a filter ends.
	sliceLookups = 500
	// sweepLookups bounds each pass of stored keys, and half of those of absent keys, so that a sweep
	// takes a minute.
	sweepLookups = 20_000
)

// runShares are the levels' shares of the keys, the last level first. They are somewhat below the
// limits of levels that grow tenfold, so no level is compacted. Level 0 gets the remainder.
var runShares = []float64{0.93, 0.055, 0.01}

// sweepTarget is a store whose lookups are measured.
type sweepTarget struct {
	run    *storeRun
	dir    string
	policy filter.Policy // reads its filters
}

// sweepStore builds a store for each filter and looks up keys in all of them, in turns. All stores
// have the same entries on the same levels.
type sweepStore struct {
	*session
	root            string // the folder of the stores
	targets         []*sweepTarget
	runs            [][]int // key numbers, ascending by key, for each load and then for level 0
	stored, present [][]byte
	absent          [][]byte
	values          [][]byte
	base            int64
	shape           []levelShape // of the first store
}

// newSweepStore chooses a level for each key at random.
func newSweepStore(s *session, stored, absent [][]byte) *sweepStore {
	rng := rand.New(rand.NewPCG(s.cfg.Seed, 1))
	st := &sweepStore{session: s, stored: stored, runs: make([][]int, len(runShares)+1)}
	th := s.newThread()
	bytes := 0
	for i, key := range stored {
		run, draw := 0, rng.Float64()
		for ; run < len(runShares) && draw >= runShares[run]; run++ {
			draw -= runShares[run]
		}
		st.runs[run] = append(st.runs[run], i)
		st.values = append(st.values, th.values.Next(s.cfg.ValueSize))
		bytes += len(key) + s.cfg.ValueSize
	}
	// Half of the entries' size, so a level with a hundredth of them fits.
	st.base = max(int64(bytes)/100, 16<<10)
	st.present, st.absent = drawKeys(rng, stored, sweepLookups), drawKeys(rng, absent, 2*sweepLookups)
	return st
}

// drawKeys returns at most n of the keys, in random order.
func drawKeys(rng *rand.Rand, keys [][]byte, n int) [][]byte {
	keys = slices.Clone(keys)
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys[:min(n, len(keys))]
}

func (s *session) sweepCache() int64 { return max(s.cfg.CacheSize, 0) }

func (st *sweepStore) options(p filter.Policy) *db.Options {
	o := st.cfg.options()
	o.FS, o.Filters.Policy, o.Compaction.MaxLevelBase, o.EventListener = st.fs, p, st.base, st.events.listener()
	return o
}

// build loads the runs, starting with the last level: each load goes to a level above those that it
// overlaps.
func (st *sweepStore) build(ctx context.Context, dir string, p filter.Policy) error {
	if err := st.closeDB(); err != nil {
		return err
	}
	store, err := db.Open(dir, st.options(p))
	if err != nil {
		return err
	}
	st.store = store
	top := len(st.runs) - 1
	for _, run := range st.runs[:top] {
		if err := st.loadRun(store, run); err != nil {
			return err
		}
	}
	for _, i := range st.runs[top] {
		if err := store.Put(st.stored[i], st.values[i], db.NoSync); err != nil {
			return err
		}
	}
	return errors.Join(st.settle(ctx), st.closeDB())
}

func (st *sweepStore) loadRun(store *db.DB, run []int) error {
	if len(run) == 0 {
		return nil
	}
	l, err := store.NewLoader()
	if err != nil {
		return err
	}
	for _, i := range run {
		if err = l.Put(st.stored[i], st.values[i]); err != nil {
			break
		}
	}
	if err == nil {
		err = l.Commit()
	}
	return errors.Join(err, l.Close())
}

// pass looks up keys and adds a repetition to p.
func (st *sweepStore) pass(ctx context.Context, store *db.DB, levels *levelCounts, keys [][]byte, p *passRun) error {
	before := store.Metrics()
	levels.reset()
	var value []byte
	var slice []float64
	p.Gets, p.Found = uint64(len(keys)), 0
	for part := range slices.Chunk(keys, sliceLookups) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		began := time.Now()
		for _, key := range part {
			var err error
			if value, err = store.GetTo(value[:0], key); err == nil {
				p.Found++
			} else if !errors.Is(err, db.ErrNotFound) {
				return err
			}
		}
		slice = append(slice, float64(time.Since(began).Nanoseconds())/1e3/float64(len(part)))
	}
	slices.Sort(slice)
	if len(slice) > 0 {
		p.micros = append(p.micros, slice[int(0.1*float64(len(slice)-1)+0.5)])
	}
	if len(p.micros) > 1 {
		return nil // the reads are the same each time
	}
	for level, reads := range levels.read() {
		if levels.tables[level] > 0 {
			p.Levels = append(p.Levels, levelReads{Level: level, Reads: reads})
			p.Reads += reads
		}
	}
	filters, err := store.Filters(ctx, 0)
	if err == nil {
		p.Predicted = predictedReads(filters, before, store.Metrics())
	}
	return err
}

// predictedReads returns the predicted number of disk reads: one for each table that had the key,
// and the level's false-positive rate for each other table. A table without a filter is read
// whenever it is consulted.
func predictedReads(filters *db.FilterReport, before, after *db.Metrics) float64 {
	predicted := make(map[int]float64)
	for _, l := range filters.Levels {
		predicted[l.Level] = l.Predicted
	}
	var sum float64
	for i := range after.Levels {
		a, b := after.Levels[i], before.Levels[i]
		consulted := float64(a.Reads - b.Reads)
		if rate, ok := predicted[i]; ok && rate >= 0 {
			held := float64(a.FilterTruePositives - b.FilterTruePositives)
			sum += held + rate*(consulted-held)
		} else {
			sum += consulted
		}
	}
	return sum
}

// levelCounts counts reads of tables by level, at the file system.
type levelCounts struct {
	level  map[string]int // by path
	tables [numLevels]int
	reads  [numLevels]atomic.Uint64
}

// numLevels is LevelDB's.
const numLevels = 7

func newLevelCounts() *levelCounts { return &levelCounts{level: make(map[string]int)} }

// learn records the level of each table.
func (c *levelCounts) learn(store *db.DB, dir string) error {
	tables, err := store.Tables()
	for _, t := range tables {
		c.level[filepath.Join(dir, t.Name)] = t.Level
		c.tables[t.Level]++
	}
	return err
}

func (c *levelCounts) observe(op wrap.Op) {
	if level, ok := c.level[op.Name]; ok && op.Kind == wrap.OpRead {
		c.reads[level].Add(1)
	}
}

func (c *levelCounts) read() (reads [numLevels]uint64) {
	for i := range reads {
		reads[i] = c.reads[i].Load()
	}
	return reads
}

func (c *levelCounts) reset() {
	for i := range c.reads {
		c.reads[i].Store(0)
	}
}
