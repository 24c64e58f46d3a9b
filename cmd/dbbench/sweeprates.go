package main

import (
	"bytes"
	"context"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/sievedb/sievedb/filter"
)

// sweepTableKeys is the number of keys in a small table: about that of a table of 2 MiB with
// entries of 16 + 100 bytes.
const sweepTableKeys = 20_000

// shapeRates has the false-positive rates of filters on keys of one shape.
type shapeRates struct {
	Shape  string `json:"shape"`
	Stored int    `json:"stored_keys"`
	Absent int    `json:"absent_keys"`
	// Small is for tables of the store's default size, Large for one table of all keys.
	Small tableRates `json:"small_tables"`
	Large tableRates `json:"large_table"`
}

// tableRates has the false-positive rates of filters in tables of one size.
type tableRates struct {
	TableKeys int `json:"table_keys"`
	// SameHash is the share of absent keys with the same 32-bit hash as a key in their table.
	// LevelDB's filter uses that hash, so it passes these keys with any number of bits.
	SameHash float64      `json:"same_hash"`
	Rates    []filterRate `json:"rates"`
}

// of returns the rate of a point, or nil.
func (t *tableRates) of(p sweepPoint) *filterRate {
	for i := range t.Rates {
		if t.Rates[i].sweepPoint == p {
			return &t.Rates[i]
		}
	}
	return nil
}

// filterRate is one filter's false-positive rate: Passed of the Asked absent keys passed it. Low
// and High bound the rate with a confidence of 95 % (Wilson's interval).
type filterRate struct {
	sweepPoint
	BitsPerKey float64 `json:"bits_per_key"` // that the filter uses
	Asked      uint64  `json:"asked"`
	Passed     uint64  `json:"passed"`
	Rate       float64 `json:"rate"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	// Predicted is for the tables' keys: it takes into account how many different hashes they
	// have, and the share of absent keys that have one of these.
	Predicted float64 `json:"predicted"`
	// AnyKeys is the policy's prediction for this number of arbitrary keys.
	AnyKeys float64 `json:"predicted_any_keys"`
}

// tableKeys has the keys of one table and the absent ones within its range.
type tableKeys struct {
	stored, absent [][]byte
	// hashes is the number of different 32-bit hashes of the stored keys, and same the number of
	// absent keys that have one of them.
	hashes, same int
}

// splitTables splits ascending stored keys into tables of size keys, and ascending absent keys
// among these.
func splitTables(stored, absent [][]byte, size int) []tableKeys {
	var tables []tableKeys
	for len(stored) > 0 {
		n := min(size, len(stored))
		t := tableKeys{stored: stored[:n]}
		stored = stored[n:]
		if t.absent = absent; len(stored) > 0 {
			i := sort.Search(len(absent), func(i int) bool { return bytes.Compare(absent[i], stored[0]) >= 0 })
			t.absent, absent = absent[:i], absent[i:]
		}
		tables = append(tables, t)
	}
	return tables
}

// measureRates queries the filters of every point with every absent key.
func measureRates(ctx context.Context, name string, stored, absent [][]byte, points []sweepPoint, done *atomic.Int64) (*shapeRates, error) {
	s := &shapeRates{Shape: name, Stored: len(stored), Absent: len(absent)}
	s.Small.TableKeys, s.Large.TableKeys = min(sweepTableKeys, len(stored)), len(stored)
	for _, t := range []*tableRates{&s.Small, &s.Large} {
		if err := t.measure(ctx, stored, absent, points, done); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// measure distributes the points over the processors.
func (t *tableRates) measure(ctx context.Context, stored, absent [][]byte, points []sweepPoint, done *atomic.Int64) error {
	tables := splitTables(stored, absent, t.TableKeys)
	same := 0
	for i := range tables {
		tables[i].countHashes()
		same += tables[i].same
	}
	t.SameHash = float64(same) / float64(max(len(absent), 1))
	for _, p := range points {
		if p.policy() != filter.None {
			t.Rates = append(t.Rates, filterRate{sweepPoint: p})
		}
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(t.Rates)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				t.Rates[i].measure(tables)
				done.Add(1)
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// measure builds the filter of each table and queries it. The predictions are the means of those
// for the tables, weighted by their number of queries.
func (r *filterRate) measure(tables []tableKeys) {
	policy := r.policy().(filter.HashPolicy) // as all kinds of the sweep
	predict := r.policy().(interface{ PredictedRate(keys uint64) float64 })
	var bits, keys int
	var built []byte
	for i := range tables {
		t := &tables[i]
		built = policy.CreateFilter(built[:0], t.stored)
		bits, keys = bits+8*len(built), keys+len(t.stored)
		probe := policy.NewProbe(built)
		for _, key := range t.absent {
			if probe.HashMayMatch(policy.KeyHash(key)) {
				r.Passed++
			}
		}
		r.Asked += uint64(len(t.absent))
		anyKeys := predict.PredictedRate(uint64(len(t.stored)))
		r.AnyKeys += float64(len(t.absent)) * anyKeys
		r.Predicted += t.expected(policy, built, anyKeys)
	}
	asked := float64(max(r.Asked, 1))
	r.BitsPerKey = float64(bits) / float64(max(keys, 1))
	r.Rate, r.Predicted, r.AnyKeys = float64(r.Passed)/asked, r.Predicted/asked, r.AnyKeys/asked
	r.Low, r.High = filter.RateInterval(r.Passed, r.Asked)
}

// expected returns how many absent keys are predicted to pass the table's filter. With a hash of 32
// bits, the absent keys that share a hash with a stored key always pass; the others pass at the rate
// of a filter for this number of different hashes.
func (t *tableKeys) expected(policy filter.Policy, built []byte, anyKeys float64) float64 {
	shape, ok := filter.ShapeOf(policy, built)
	if !ok || shape.HashBits > 32 {
		return float64(len(t.absent)) * anyKeys
	}
	byChance := filter.SameHashRate(uint64(t.hashes), shape.HashBits)
	rate := (shape.PredictedRate(uint64(t.hashes)) - byChance) / (1 - byChance)
	return float64(t.same) + rate*float64(len(t.absent)-t.same)
}

// countHashes counts the hashes that LevelDB's filter goes by.
func (t *tableKeys) countHashes() {
	policy := filter.NewBloomPolicy(filter.DefaultBitsPerKey)
	hashes := make(map[uint64]struct{}, len(t.stored))
	for _, key := range t.stored {
		hashes[policy.KeyHash(key)] = struct{}{}
	}
	for _, key := range t.absent {
		if _, ok := hashes[policy.KeyHash(key)]; ok {
			t.same++
		}
	}
	t.hashes = len(hashes)
}
