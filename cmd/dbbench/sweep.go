package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/sievedb/sievedb/cmd/internal/bench"
)

// sweep is the result of filtersweep. README.md documents its JSON form.
type sweep struct {
	Filters []string `json:"filters"`
	Bits    []int    `json:"bits"`
	// Shapes starts with the real keys.
	Shapes []*shapeRates `json:"shapes"`
	// Levels describes the store of every run of Stores.
	CacheBytes int64         `json:"cache_bytes"`
	ValueSize  int           `json:"value_size"`
	Levels     []levelShape  `json:"levels"`
	Stores     []*storeRun   `json:"stores"`
	Peers      []*storeRun   `json:"peers"` // without filters, with those of other stores, and with the default
	Repeat     int           `json:"repeat"`
	Took       time.Duration `json:"-"`

	noun string // "word" if the keys are the shipped words
}

// sweepKeysDefault is the default number of stored keys, and of absent keys, of each generated
// shape.
const sweepKeysDefault = 400_000

// filterSweep measures every kind of filter with every number of bits: its false-positive rate
// on keys of each shape, and the disk reads and times of lookups in a store of the real keys.
func filterSweep(ctx context.Context, s *session, name string) (err error) {
	began := time.Now()
	stored, absent, err := s.sweepKeys()
	if err != nil {
		return err
	}
	points := sweepPoints(s.cfg.Filters, s.cfg.Bits)
	out := &sweep{
		Filters: s.cfg.Filters, Bits: s.cfg.Bits,
		CacheBytes: s.sweepCache(), ValueSize: s.cfg.ValueSize, Repeat: s.cfg.Repeat, noun: "key",
	}
	if s.cfg.Keys == "" {
		out.noun = "word"
	}
	root, err := s.scratchDir("sweep")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	fmt.Fprintf(s.stdout, "%-17s: %s, on %s and %s of generated keys; %s are in %s until it ends.\n\n", name,
		bench.Counted(uint64(len(points)), "filter"), bench.Counted(uint64(stored.len()), out.noun),
		bench.Counted(uint64(len(keyShapes)), "shape"), bench.Counted(uint64(len(points)+len(peerLayouts)+1), "store"), root)
	if err := out.measureShapes(ctx, s, stored, absent, points); err != nil {
		return err
	}
	if err := out.measureStores(ctx, s, root, stored, absent, points); err != nil {
		return err
	}
	out.Took = time.Since(began)
	s.sweep = out
	if err := out.write(s.stdout); err != nil {
		return err
	}
	if s.cfg.HTML != "" {
		if err := out.writeHTML(s.cfg); err != nil {
			return err
		}
		fmt.Fprintf(s.stdout, "\nThe report with charts is in %s\n", s.cfg.HTML)
	}
	// Later workloads must not find filtersweep's stores.
	return s.freshDB()
}

// sweepKeys returns the real keys: those of --keys, or the shipped words.
func (s *session) sweepKeys() (stored, absent *keyList, err error) {
	if s.keys.list != nil && s.cfg.Keys != "" {
		return s.keys.list, s.keys.missing, nil
	}
	if stored, absent, err = shippedWords(); err != nil {
		return nil, nil, err
	}
	return stored.first(s.cfg.Num), absent.first(s.cfg.Num), nil
}

func (out *sweep) measureShapes(ctx context.Context, s *session, stored, absent *keyList, points []sweepPoint) error {
	bar := s.newProgress("false positives", 2*(len(keyShapes)+1)*len(points), 0)
	defer bar.close()
	n := sweepKeysDefault
	if s.cfg.numGiven {
		n = s.cfg.Num
	}
	rates, err := measureRates(ctx, out.noun+"s", stored.sorted(), absent.sorted(), points, bar.done)
	out.Shapes = append(out.Shapes, rates)
	for i := range keyShapes {
		if err != nil {
			return err
		}
		shape := &keyShapes[i]
		have, lack := shape.keys(n, rand.New(rand.NewPCG(s.cfg.Seed, uint64(i))))
		rates, err = measureRates(ctx, shape.name, have, lack, points, bar.done)
		out.Shapes = append(out.Shapes, rates)
	}
	return err
}
