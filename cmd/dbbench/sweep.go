package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
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

	words bool // the keys are the shipped words
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
		CacheBytes: s.sweepCache(), ValueSize: s.cfg.ValueSize, Repeat: s.cfg.Repeat, words: s.cfg.Keys == "",
	}
	fmt.Fprintf(s.stdout, "%-17s: %s, on %s and %s of generated keys\n", name, bench.Counted(uint64(len(points)), "filter"),
		bench.Counted(uint64(stored.len()), s.sweepNoun()), bench.Counted(uint64(len(keyShapes)), "shape"))
	root, err := s.scratchDir("sweep")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	fmt.Fprintf(s.stdout, "It takes about %s if %s idle, and has %s in %s until it ends.\n\n",
		durationText(s.sweepEstimate(stored, absent, len(points))), processorsAre(),
		bench.Counted(uint64(len(points)+len(peerLayouts)+1), "store"), root)
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

func processorsAre() string {
	if n := runtime.GOMAXPROCS(0); n > 1 {
		return fmt.Sprintf("%d processors are", n)
	}
	return "the processor is"
}

// sweepEstimate returns about how long the sweep takes. The costs were measured on two virtual processors;
// other machines differ, and the progress shows how much.
func (s *session) sweepEstimate(stored, absent *keyList, points int) time.Duration {
	const (
		perQuery  = 45 * time.Nanosecond // or per key of a filter that is built
		perStore  = 200 * time.Millisecond
		perPut    = 1500 * time.Nanosecond
		perLookup = 1200 * time.Nanosecond
		perMaking = 75 * time.Nanosecond
	)
	n := func(d time.Duration, times int) time.Duration { return d * time.Duration(times) }
	keys := stored.len() + absent.len() + 2*len(keyShapes)*s.shapeKeys()
	rates := n(n(perQuery, keys), 2*points) / time.Duration(runtime.GOMAXPROCS(0))
	stores := n(perStore+n(perPut, stored.len()), points+len(peerLayouts)+1)
	lookups := min(stored.len(), sweepLookups) + min(absent.len(), 2*sweepLookups)
	return rates + stores + n(n(perLookup, lookups)*time.Duration(points+4)+n(perMaking, stored.len()*points), s.cfg.Repeat)
}

func (s *session) sweepNoun() string {
	if s.cfg.Keys == "" {
		return "word"
	}
	return "key"
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

// shapeKeys returns the number of stored keys of each generated shape.
func (s *session) shapeKeys() int {
	if s.cfg.numGiven {
		return s.cfg.Num
	}
	return sweepKeysDefault
}

func (out *sweep) measureShapes(ctx context.Context, s *session, stored, absent *keyList, points []sweepPoint) error {
	bar := s.newProgress("false positives", 2*(len(keyShapes)+1)*len(points), 0)
	defer bar.close()
	title := s.sweepNoun() + "s"
	rates, err := measureRates(ctx, title, "others", stored.sorted(), absent.sorted(), points, bar.done)
	out.Shapes = append(out.Shapes, rates)
	for i := range keyShapes {
		if err != nil {
			return err
		}
		shape := &keyShapes[i]
		missing := shape.absent
		if missing == "" {
			missing = "odd numbers between even"
		}
		have, lack := shape.keys(s.shapeKeys(), rand.New(rand.NewPCG(s.cfg.Seed, uint64(i))))
		rates, err = measureRates(ctx, shape.name, missing, have, lack, points, bar.done)
		out.Shapes = append(out.Shapes, rates)
	}
	return err
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
