package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/vfs/wrap"
)

// storeRun has the results of a store whose tables have one filter of the sweep.
type storeRun struct {
	sweepPoint
	BitsPerKey      float64 `json:"bits_per_key"`
	FilterBytes     uint64  `json:"filter_bytes"` // in memory
	MakeNanosPerKey float64 `json:"make_nanos_per_key"`
	Absent          passRun `json:"absent_keys"`
	Present         passRun `json:"stored_keys"`
}

// passRun has the results of one pass of lookups of stored or absent keys, in random order.
type passRun struct {
	Gets   uint64       `json:"gets"`
	Found  uint64       `json:"found"`
	Levels []levelReads `json:"levels"`
	Reads  uint64       `json:"disk_reads"` // of index and data blocks
	// Predicted is the number of disk reads that theory predicts.
	Predicted float64 `json:"predicted_disk_reads"`
	// P10 and P50 are percentiles of the time per lookup in microseconds, over slices of
	// sliceLookups lookups. P10 is the time without disturbances.
	P10 float64 `json:"micros_p10"`
	P50 float64 `json:"micros_p50"`
}

// levelReads is the number of disk reads from tables of a level.
type levelReads struct {
	Level int    `json:"level"`
	Reads uint64 `json:"disk_reads"`
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
	// sweepLookups bounds each pass, so that a sweep takes a minute.
	sweepLookups = 50_000
)

// runShares are the levels' shares of the keys, the last level first. They are somewhat below the
// limits of levels that grow tenfold, so no level is compacted. Level 0 gets the remainder.
var runShares = []float64{0.93, 0.055, 0.01}

// sweepStore builds a store for each point and looks up keys in it. All stores have the same
// entries on the same levels.
type sweepStore struct {
	*session
	runs            [][]int // key numbers, ascending by key, for each load and then for level 0
	stored, present [][]byte
	absent          [][]byte
	values          [][]byte
	base            int64
	shape           []levelShape // of the last store
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

// measure builds the store with the filter of p and looks up all keys.
func (st *sweepStore) measure(ctx context.Context, p sweepPoint) (*storeRun, error) {
	r := &storeRun{sweepPoint: p}
	if err := st.build(ctx, p); err != nil {
		return nil, err
	}
	o := st.options(p)
	o.ReadOnly, o.Cache.Size = true, cacheOption(st.cache())
	store, err := db.Open(st.dir, o)
	if err != nil {
		return nil, err
	}
	st.store = store
	levels := newLevelCounts()
	if err = levels.learn(store, st.dir); err == nil { // opens all tables
		st.fs.Observe(levels.observe)
		defer st.fs.Observe(nil)
		m := store.Metrics()
		st.shape, r.FilterBytes = levelShapes(m), m.Tables.FilterBytes
		r.BitsPerKey = 8 * float64(r.FilterBytes) / float64(len(st.stored))
		err = st.pass(ctx, store, levels, st.absent, &r.Absent)
	}
	if err == nil {
		err = st.pass(ctx, store, levels, st.present, &r.Present)
	}
	r.MakeNanosPerKey = st.makingCost(p)
	return r, errors.Join(err, st.closeDB())
}

func (s *session) sweepCache() int64 { return max(s.cfg.CacheSize, 0) }

func (st *sweepStore) cache() int64 { return st.sweepCache() }

func (st *sweepStore) options(p sweepPoint) *db.Options {
	o := st.cfg.options()
	o.FS, o.Filters.Policy, o.Compaction.MaxLevelBase, o.EventListener = st.fs, p.policy(), st.base, st.events.listener()
	return o
}

// build loads the runs, starting with the last level: each load goes to a level above those that it
// overlaps.
func (st *sweepStore) build(ctx context.Context, p sweepPoint) error {
	if err := st.closeDB(); err != nil {
		return err
	}
	if err := db.Destroy(st.dir, &db.Options{FS: st.fs}); err != nil {
		return err
	}
	store, err := db.Open(st.dir, st.options(p))
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

// pass looks up keys and fills in p.
func (st *sweepStore) pass(ctx context.Context, store *db.DB, levels *levelCounts, keys [][]byte, p *passRun) error {
	before := store.Metrics()
	levels.reset()
	var value []byte
	var slice []float64
	for len(keys) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(sliceLookups, len(keys))
		began := time.Now()
		for _, key := range keys[:n] {
			var err error
			if value, err = store.GetTo(value[:0], key); err == nil {
				p.Found++
			} else if !errors.Is(err, db.ErrNotFound) {
				return err
			}
		}
		slice = append(slice, float64(time.Since(began).Nanoseconds())/1e3/float64(n))
		p.Gets += uint64(n)
		keys = keys[n:]
	}
	p.P10, p.P50 = percentiles(slice)
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

func percentiles(values []float64) (p10, p50 float64) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	at := func(q float64) float64 { return values[int(q*float64(len(values)-1)+0.5)] }
	return at(0.1), at(0.5)
}

// makingCost returns the time to build filters for all keys, in nanoseconds per key. It uses the
// least of many times of each filter, since disturbances can only add to it.
func (st *sweepStore) makingCost(p sweepPoint) float64 {
	if p.policy() == filter.None {
		return 0
	}
	var sum time.Duration
	var built []byte
	for keys := range slices.Chunk(st.stored, sweepTableKeys) {
		var best time.Duration
		for range 15 {
			began := time.Now()
			built = p.policy().CreateFilter(built[:0], keys)
			if took := time.Since(began); best == 0 || took < best {
				best = took
			}
		}
		sum += best
	}
	return float64(sum.Nanoseconds()) / float64(max(len(st.stored), 1))
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
