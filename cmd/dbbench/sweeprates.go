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

// sweepTableKeys is how many keys a small table has: about what a table of 2 MiB holds
// of entries of 16 + 100 bytes.
const sweepTableKeys = 20_000

// shapeRates is how often filters err on keys of one shape.
type shapeRates struct {
	Shape   string `json:"shape"`
	Missing string `json:"missing"` // which keys were asked for
	Stored  int    `json:"stored_keys"`
	Absent  int    `json:"absent_keys"`
	// Small is in tables of the size that the store makes by default, Large in one table of
	// all keys.
	Small tableRates `json:"small_tables"`
	Large tableRates `json:"large_table"`
}

// tableRates is how often filters err in tables of one size.
type tableRates struct {
	TableKeys int `json:"table_keys"`
	// SameHash is the share of absent keys whose 32-bit hash, which LevelDB's filter goes
	// by, is that of a key in the same table: no number of bits helps them.
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

// filterRate is one filter's false positives: of Asked absent keys it let Passed pass.
// Low and High bound the rate with a confidence of 95 % (Wilson's interval).
type filterRate struct {
	sweepPoint
	BitsPerKey float64 `json:"bits_per_key"` // that it takes
	Asked      uint64  `json:"asked"`
	Passed     uint64  `json:"passed"`
	Rate       float64 `json:"rate"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	// Predicted is for the tables' keys: for how many different hashes they have, and with the
	// share of absent keys that have one of these.
	Predicted float64 `json:"predicted"`
	// AnyKeys is what the policy predicts for so many keys, whatever they are.
	AnyKeys float64 `json:"predicted_any_keys"`
}

// agrees tells whether the interval holds the prediction.
func (r *filterRate) agrees() bool { return r.Low <= r.Predicted && r.Predicted <= r.High }

// tableKeys are the keys of one table and the absent ones that would be asked of it.
type tableKeys struct {
	stored, absent [][]byte
	// hashes is how many different 32-bit hashes the stored keys have, and same how many
	// absent keys have one of them.
	hashes, same int
}

// splitTables cuts stored keys, which ascend, into tables of size keys and deals the absent ones, which
// ascend too, among them.
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

// measureRates asks the filters of every point for every absent key.
func measureRates(ctx context.Context, name, missing string, stored, absent [][]byte, points []sweepPoint, done *atomic.Int64) (*shapeRates, error) {
	s := &shapeRates{Shape: name, Missing: missing, Stored: len(stored), Absent: len(absent)}
	s.Small.TableKeys, s.Large.TableKeys = min(sweepTableKeys, len(stored)), len(stored)
	for _, t := range []*tableRates{&s.Small, &s.Large} {
		if err := t.measure(ctx, stored, absent, points, done); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// measure shares the points among the processors.
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

// measure makes the filter of each table and asks it. The predictions are the means of those
// for the tables, each counting as often as it is asked.
func (r *filterRate) measure(tables []tableKeys) {
	policy := r.policy().(filter.HashPolicy) // all kinds of the sweep are
	predict := r.policy().(interface{ PredictedRate(keys uint64) float64 })
	var bits, keys int
	var made []byte
	for i := range tables {
		t := &tables[i]
		made = policy.CreateFilter(made[:0], t.stored)
		bits, keys = bits+8*len(made), keys+len(t.stored)
		probe := policy.NewProbe(made)
		for _, key := range t.absent {
			if probe.HashMayMatch(policy.KeyHash(key)) {
				r.Passed++
			}
		}
		r.Asked += uint64(len(t.absent))
		anyKeys := predict.PredictedRate(uint64(len(t.stored)))
		r.AnyKeys += float64(len(t.absent)) * anyKeys
		r.Predicted += t.expected(policy, made, anyKeys)
	}
	asked := float64(max(r.Asked, 1))
	r.BitsPerKey = float64(bits) / float64(max(keys, 1))
	r.Rate, r.Predicted, r.AnyKeys = float64(r.Passed)/asked, r.Predicted/asked, r.AnyKeys/asked
	r.Low, r.High = filter.RateInterval(r.Passed, r.Asked)
}

// expected is how many absent keys are predicted to pass the filter made of the table. Where
// keys have a hash of 32 bits, those with a stored one's pass for certain, and the others
// at the rate of a filter of so many different hashes.
func (t *tableKeys) expected(policy filter.Policy, made []byte, anyKeys float64) float64 {
	shape, ok := filter.ShapeOf(policy, made)
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
