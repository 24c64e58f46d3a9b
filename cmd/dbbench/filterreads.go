package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/base"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

// reportName is the workload that creates the report.
const reportName = "filterreads"

// smallCache is the report's default block cache in bytes. It is far smaller than the data, so
// lookups read from disk as they would in a store that is larger than memory.
const smallCache = 1 << 20

// lookups is the result of looking up each key of a list once, in random order, from the
// opening of the store to the last key. README.md documents its JSON form.
type lookups struct {
	Gets  uint64 `json:"gets"`
	Found uint64 `json:"found"`

	// From the store's metrics.
	TablesConsulted      uint64  `json:"tables_consulted"`
	FilterChecks         uint64  `json:"filter_checks"`
	FilterNegatives      uint64  `json:"filter_negatives"`
	FilterTruePositives  uint64  `json:"filter_true_positives"`
	FilterFalsePositives uint64  `json:"filter_false_positives"`
	FalsePositiveRate    float64 `json:"false_positive_rate"`
	PredictedRate        float64 `json:"predicted_false_positive_rate"`
	BlocksFromCache      uint64  `json:"blocks_from_cache"`
	StoreIndexReads      uint64  `json:"store_index_reads"`
	StoreDataReads       uint64  `json:"store_data_reads"`
	FilterBytes          uint64  `json:"filter_bytes"` // in memory

	// Counted at the file system.
	OpeningReads uint64  `json:"opening_reads"`
	IndexReads   uint64  `json:"index_reads"`
	DataReads    uint64  `json:"data_reads"`
	DiskReads    uint64  `json:"disk_reads"` // the sum of the three
	BytesRead    uint64  `json:"bytes_read"`
	ReadsPerGet  float64 `json:"disk_reads_per_get"`

	MicrosPerOp float64 `json:"micros_per_op"`
}

// comparison has the same lookups without and with filters.
type comparison struct {
	Off        lookups  `json:"filter_off"`
	On         lookups  `json:"filter_on"`
	ReadsSaved int64    `json:"reads_saved"`
	Factor     *float64 `json:"reads_saved_factor"` // reads without filters divided by reads with them; null if the latter is 0
}

func (c *comparison) summarize() {
	c.ReadsSaved = int64(c.Off.DiskReads) - int64(c.On.DiskReads)
	if c.On.DiskReads > 0 {
		f := float64(c.Off.DiskReads) / float64(c.On.DiskReads)
		c.Factor = &f
	}
}

// filterReads creates the report for the current database. It opens the folder read-only, so no
// compaction moves or reads tables during the lookups.
func filterReads(ctx context.Context, s *session, _ string) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	stored, absent, err := s.lookupKeys(ctx)
	if err != nil {
		return err
	}
	r := &report{
		FilterKind: s.cfg.FilterKind, Bits: s.cfg.BloomBits, CacheBytes: s.reportCache(),
		Words: s.keys.list != nil && s.cfg.Keys == "",
	}
	r.setShape(s.store.Metrics())
	if err := s.closeDB(); err != nil {
		return err
	}
	here, err := s.lookupsIn(s.dir)
	if err != nil {
		return err
	}
	for _, p := range []struct {
		policy         filter.Policy
		stored, absent *lookups
	}{
		{filter.None, &r.Stored.Off, &r.Absent.Off},
		{s.cfg.filter(), &r.Stored.On, &r.Absent.On},
	} {
		if err := s.passes(ctx, "filter "+onOrOff(p.policy), p.policy, here, stored, absent, p.stored, p.absent); err != nil {
			return err
		}
	}
	r.finish(s.cfg.showcase)
	s.report = r
	if err := r.write(s.stdout); err != nil {
		return err
	}
	if s.cfg.SVG != "" {
		if err := r.writeSVG(s.cfg.SVG); err != nil {
			return err
		}
	}
	if n := r.failed(); n > 0 {
		return fmt.Errorf("%s failed", bench.Counted(uint64(n), "check"))
	}
	return nil
}

func onOrOff(policy filter.Policy) string {
	if policy == filter.None {
		return "off"
	}
	return "on"
}

// countedDir is a database whose reads are counted by kind.
type countedDir struct {
	dir   string
	reads *tableReads
}

func (s *session) lookupsIn(dir string) (*countedDir, error) {
	reads, err := readLayouts(vfs.OS, dir)
	return &countedDir{dir, reads}, err
}

// passes looks up all stored keys, then all absent ones.
func (s *session) passes(ctx context.Context, what string, policy filter.Policy, in *countedDir, stored, absent *keyList, ls, la *lookups) error {
	if err := s.pass(ctx, what+", stored keys", policy, in, stored, ls); err != nil {
		return err
	}
	return s.pass(ctx, what+", absent keys", policy, in, absent, la)
}

func (s *session) reportCache() int64 {
	if s.cfg.CacheSize < 0 {
		return smallCache
	}
	return s.cfg.CacheSize
}

// pass reopens the store, looks up all keys in an order that depends only on the seed, and fills in l.
func (s *session) pass(ctx context.Context, name string, policy filter.Policy, in *countedDir, keys *keyList, l *lookups) error {
	s.fs.Observe(in.reads.observe)
	defer s.fs.Observe(nil)
	in.reads.reset()
	before := s.fs.Snapshot()
	o := s.cfg.options()
	o.FS, o.ReadOnly, o.Filters.Policy, o.Cache.Size = s.fs, true, policy, cacheOption(s.reportCache())
	store, err := db.Open(in.dir, o)
	if err != nil {
		return err
	}
	elapsed, err := s.lookUp(ctx, name, store, keys, l)
	if err == nil {
		l.setStore(store.Metrics())
		l.MicrosPerOp = float64(elapsed.Nanoseconds()) / 1e3 / float64(max(l.Gets, 1))
		all := s.fs.Snapshot().Sub(before).Of(base.FileTable, base.FileOldTable)
		err = l.setReads(in.reads.counts(), all)
	}
	if err == nil { // after the reads have been counted, since this may read properties
		var filters *db.FilterReport
		if filters, err = store.Filters(ctx, 0); err == nil {
			l.PredictedRate = predictedRate(filters)
		}
	}
	return errors.Join(err, store.Close())
}

func (s *session) lookUp(ctx context.Context, name string, store *db.DB, keys *keyList, l *lookups) (time.Duration, error) {
	order := rand.New(rand.NewPCG(s.cfg.Seed, 0)).Perm(keys.len())
	bar := s.newProgress(name, len(order), 0)
	defer bar.close()
	var value []byte
	began := time.Now()
	for i, n := range order {
		if i%checkEvery == 0 {
			bar.done.Store(int64(i))
			if ctx.Err() != nil {
				return 0, context.Cause(ctx)
			}
		}
		var err error
		value, err = store.GetTo(value[:0], keys.key(n))
		switch {
		case err == nil:
			l.Found++
		case !errors.Is(err, db.ErrNotFound):
			return 0, err
		}
	}
	l.Gets = uint64(len(order))
	return time.Since(began), nil
}

// setStore sets the figures that the store counted since it was opened.
func (l *lookups) setStore(m *db.Metrics) {
	t := m.Total()
	l.TablesConsulted, l.FilterChecks, l.FilterNegatives = t.Reads, t.FilterChecks, t.FilterNegatives
	l.FilterTruePositives, l.FilterFalsePositives = t.FilterTruePositives, t.FilterFalsePositives
	if wrongOrNo := t.FilterNegatives + t.FilterFalsePositives; wrongOrNo > 0 {
		l.FalsePositiveRate = float64(t.FilterFalsePositives) / float64(wrongOrNo)
	}
	l.BlocksFromCache, l.StoreIndexReads, l.StoreDataReads = t.BlocksFromCache, t.IndexReads, t.BlocksFromDisk
	l.FilterBytes = m.Tables.FilterBytes
}

// setReads sets the figures counted at the file system: c by kind of block, and all, which
// includes reads of tables that the counter did not know.
func (l *lookups) setReads(c readCounts, all wrap.Counts) error {
	if c.all() != all.Reads {
		return fmt.Errorf("%s of table files, but only %s of tables that existed when the lookups began",
			bench.Counted(all.Reads, "read"), bench.Grouped(c.all()))
	}
	l.OpeningReads, l.IndexReads, l.DataReads = c.Opening, c.Index, c.Data
	l.DiskReads, l.BytesRead = all.Reads, all.ReadBytes
	l.ReadsPerGet = float64(l.DiskReads) / float64(max(l.Gets, 1))
	return nil
}

// predictedRate returns the false-positive rate that theory predicts: the mean of the levels' rates,
// weighted by the number of queries for keys that a level does not have.
func predictedRate(r *db.FilterReport) float64 {
	var queries, sum float64
	for _, l := range r.Levels {
		if l.Predicted >= 0 {
			n := float64(l.Lookups.Negatives + l.Lookups.FalsePositives)
			queries, sum = queries+n, sum+n*l.Predicted
		}
	}
	if queries == 0 {
		return 0
	}
	return sum / queries
}

// lookupKeys returns the stored and the absent keys to look up. They are from the key files, if
// these list all keys, and otherwise drawn from the database.
func (s *session) lookupKeys(ctx context.Context) (stored, absent *keyList, err error) {
	if s.allKeysStored {
		stored = s.keys.list
	} else if stored, err = s.sampleKeys(ctx, s.reads(s.keys.num)); err != nil {
		return nil, nil, err
	}
	if absent = s.keys.missing; absent == nil {
		if absent, err = s.neighbours(ctx, stored); err != nil {
			return nil, nil, err
		}
	}
	if stored.len() == 0 {
		return nil, nil, errors.New("the database is empty; fill it first, as in --benchmarks=fillrandom,filterreads")
	}
	if s.cfg.Reads > 0 {
		stored, absent = stored.first(s.cfg.Reads), absent.first(s.cfg.Reads)
	}
	return stored, absent, nil
}

// sampleKeys draws at most n of the database's keys, all with the same probability (Vitter's algorithm R).
func (s *session) sampleKeys(ctx context.Context, n int) (*keyList, error) {
	it, err := s.store.NewIterator(&db.IterOptions{NoFillCache: true})
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(s.cfg.Seed, 0))
	var sample [][]byte
	seen := 0
	for ok := it.First(); ok; ok = it.Next() {
		if seen%1000 == 0 && ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), it.Close())
		}
		if seen++; len(sample) < n {
			sample = append(sample, append([]byte(nil), it.Key()...))
		} else if i := rng.IntN(seen); i < n {
			sample[i] = append(sample[i][:0], it.Key()...)
		}
	}
	list := &keyList{}
	for _, key := range sample {
		list.add(key)
	}
	return list, errors.Join(it.Err(), it.Close())
}

// neighbours returns, for each key, an absent key that sorts directly after it. It looks for
// these with an iterator, which queries no filter.
func (s *session) neighbours(ctx context.Context, keys *keyList) (*keyList, error) {
	it, err := s.store.NewIterator(nil)
	if err != nil {
		return nil, err
	}
	list := &keyList{}
	var key []byte
	for i := range keys.len() {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), it.Close())
		}
		key = append(append(key[:0], keys.key(i)...), missingSuffix)
		for it.SeekGE(key) && string(it.Key()) == string(key) {
			key = append(key, missingSuffix)
		}
		list.add(key)
	}
	return list, errors.Join(it.Err(), it.Close())
}
