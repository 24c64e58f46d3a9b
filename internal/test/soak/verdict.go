package soak

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
)

const (
	growthAllowed = 1.05
	spaceClosed   = 2.0
	// spaceWorking allows for the tables of one more version for each worker: an
	// iterator over all keys keeps them while it reads.
	spaceWorking = spaceClosed + workers
)

// quantities are compared from sample to sample. The live heap is reported and not judged: it is so
// small that the runtime's own tables change it by more.
var quantities = []struct {
	name   string
	judged bool
	// slack is what a short run may grow by on top.
	slack int64
	of    func(sample) int64
}{
	{"resident bytes", true, residentSlack, func(s sample) int64 { return s.resident }},
	{"descriptors", true, 0, func(s sample) int64 { return s.descriptors }},
	{"heap bytes", false, 0, func(s sample) int64 { return s.heap }},
}

// longRun is the number of sessions from which on a run is not short.
const longRun = 60

// judge says what grew.
func judge(samples []sample) error {
	var faults []error
	for _, q := range quantities {
		first, last := thirds(samples, q.of)
		allowed := float64(first) * growthAllowed
		if len(samples) < longRun {
			allowed += float64(q.slack)
		}
		if q.judged && float64(last) > allowed {
			faults = append(faults, fmt.Errorf("%s grew from %d to %d", q.name, first, last))
		}
	}
	return errors.Join(faults...)
}

// trends is for the summary.
func trends(samples []sample) string {
	var all []string
	for _, q := range quantities {
		first, last := thirds(samples, q.of)
		all = append(all, fmt.Sprintf("%s %d → %d", q.name, first, last))
	}
	median, most := closedSpace(samples)
	return fmt.Sprintf("first third → last: %s; closed, the directory took %.2f x what lived, at most %.2f x", strings.Join(all, ", "), median, most)
}

// thirds returns the medians of the first third and of the last third of the samples after the
// warm-up, the first quarter.
func thirds(samples []sample, of func(sample) int64) (first, last int64) {
	warm := samples[len(samples)/4:]
	third := (len(warm) + 2) / 3
	if third == 0 {
		return 0, 0
	}
	median := func(some []sample) int64 {
		var values []int64
		for _, s := range some {
			values = append(values, of(s))
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return median(warm[:third]), median(warm[len(warm)-third:])
}

// space follows what the directory takes, compared with what lives in it.
type space struct {
	mu           sync.Mutex
	latest, most occupancy
}

// occupancy is what a directory takes, and the keys and values that live in it.
type occupancy struct{ disk, live int64 }

// ratio is 0 where nothing lives yet.
func (o occupancy) ratio() float64 {
	if o.live == 0 {
		return 0
	}
	return float64(o.disk) / float64(o.live)
}

func (s *space) add(o occupancy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest = o
	if o.ratio() > s.most.ratio() {
		s.most = o
	}
}

func (s *space) judge() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most.live == 0 {
		return errors.New("the directory was never measured")
	}
	if s.most.ratio() > spaceWorking {
		return fmt.Errorf("the directory took %d bytes for %d live ones: more than %v times them", s.most.disk, s.most.live, spaceWorking)
	}
	return nil
}

func (s *space) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("live %d, disk %d, at most %.2f x", s.latest.live, s.latest.disk, s.most.ratio())
}

// judgeClosed compares the size of the directory after each Close. The median may not be above the
// bound: a Close may come in the middle of what compactions have to catch up with.
func judgeClosed(samples []sample) error {
	if median, _ := closedSpace(samples); median > spaceClosed {
		return fmt.Errorf("after half of the Closes the directory had %.2f times the live bytes or more; %v is the bound", median, spaceClosed)
	}
	return nil
}

func closedSpace(samples []sample) (median, most float64) {
	var ratios []float64
	for _, s := range samples {
		if s.space.live > 0 {
			ratios = append(ratios, s.space.ratio())
		}
	}
	if len(ratios) == 0 {
		return 0, 0
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2], ratios[len(ratios)-1]
}

// stallCount counts stalls. Of those in children it knows only how many they were: a child judges itself how long.
type stallCount struct{ count, stopped, nanos, longest atomic.Int64 }

func (c *stallCount) add(i db.WriteStallInfo) {
	c.count.Add(1)
	c.nanos.Add(int64(i.Duration))
	if i.Stopped {
		c.stopped.Add(1)
	}
	for {
		old := c.longest.Load()
		if int64(i.Duration) <= old || c.longest.CompareAndSwap(old, int64(i.Duration)) {
			return
		}
	}
}

func (c *stallCount) judge(longest time.Duration) error {
	if d := time.Duration(c.longest.Load()); d > longest {
		return fmt.Errorf("a writer waited %v for flush or compaction; %v is the bound", d, longest)
	}
	return nil
}

func (c *stallCount) String() string {
	return fmt.Sprintf("stalls %d (%d full stops here), longest %v", c.count.Load(), c.stopped.Load(), time.Duration(c.longest.Load()).Round(time.Millisecond))
}
