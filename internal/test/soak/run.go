package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/sievedb/sievedb/db"
)

// Config says what a run does. All fields but Plant are needed.
type Config struct {
	Dir  string // of the database; empty or missing
	Seed uint64
	Keys int           // of each worker; a key and its value take some 400 bytes
	For  time.Duration // at least sixteen sessions are run in any case

	// LongestStall is the longest wait of a writer for flush or compaction that is
	// no fault, and the longest time in which nothing is done at all.
	LongestStall time.Duration

	// Child returns a command that calls RunChild with the task.
	Child func(task string) *exec.Cmd
	// Log is called with a line each minute.
	Log func(format string, args ...any)
	// Plant does, with the store of a session before its Close, what the verdict must find.
	Plant func(d *db.DB, session int)
}

const (
	fewestSessions = 16
	longestSession = time.Minute
	smallestTable  = 64 << 10
)

// run is a run under way.
type run struct {
	Config
	began   time.Time
	rnd     *rand.Rand
	models  []*model
	killed  bool // the last session's child was
	kills   int
	ops     atomic.Uint64
	batches atomic.Uint64
	stalls  stallCount
	space   space
	closed  occupancy // after the last Close; none for a killed session
	samples []sample
}

// Run does what the package's comment says. Its error is a wrong answer, a failure of the store, or the faults of the
// verdict; the summary is of what was done until then.
func Run(c Config) (summary string, err error) {
	r := &run{Config: c, began: time.Now(), rnd: rand.New(rand.NewPCG(c.Seed, 1)), models: newModels(c.Seed, c.Keys),
		samples: make([]sample, 0, 2*fewestSessions+c.For/(10*time.Second))} // or they would grow the heap themselves
	watched := r.watch()
	err = r.sessions()
	watched()
	if err == nil {
		err = errors.Join(judge(r.samples), judgeClosed(r.samples), r.space.judge(), r.stalls.judge(c.LongestStall))
	}
	return r.line() + fmt.Sprintf("; %d sessions, %d of them killed; %s", len(r.samples), r.kills, trends(r.samples)), err
}

// sessions runs them. Two of three end with Close, as only what this process did can be left in its memory.
func (r *run) sessions() error {
	for s := 0; s < fewestSessions || time.Since(r.began) < r.For; s++ {
		length := time.Duration(r.rnd.Float64() * float64(min(longestSession, r.For/fewestSessions)))
		var err error
		r.closed = occupancy{}
		if s > 0 && r.rnd.IntN(3) == 0 {
			err = r.killedSession(s, length)
		} else {
			err = r.closedSession(s, length)
		}
		if err != nil {
			return fmt.Errorf("session %d: %w", s, err)
		}
		now := takeSample()
		now.space = r.closed
		r.samples = append(r.samples, now)
	}
	return r.lastSession()
}

// open opens the database and compares all that it holds.
func (r *run) open(session int) (*db.DB, error) {
	d, err := db.Open(r.Dir, options(r.Seed, session, r.Keys, r.stalls.add))
	if err != nil {
		return nil, err
	}
	if err := compare(d, r.models, r.killed); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	r.killed = false
	return d, nil
}

func (r *run) closedSession(session int, length time.Duration) error {
	before := goroutinesOfTheStore()
	d, err := r.open(session)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), length)
	err = work(ctx, d, r.models, session, &r.ops, func(int) { r.batches.Add(1) })
	cancel()
	if background := d.Metrics().BackgroundError; background != nil {
		err = errors.Join(err, background)
	}
	if r.Plant != nil {
		r.Plant(d, session)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	r.closed = r.measure()
	if left := goroutinesOfTheStore(); len(left) > len(before) {
		return fmt.Errorf("%d goroutines of the store before it was opened, %d after Close:\n%s", len(before), len(left), left)
	}
	return nil
}

// lastSession reads every table as well.
func (r *run) lastSession() error {
	d, err := r.open(-1)
	if err != nil {
		return err
	}
	report, err := d.Check(context.Background())
	if err == nil && len(report.Faults) > 0 {
		err = fmt.Errorf("check: %v", report.Faults)
	}
	return errors.Join(err, d.Close())
}

// live returns the bytes of all keys and values, or 0 during the fill.
func (r *run) live() int64 {
	if r.batches.Load() < workers*fillBatches(r.Keys) {
		return 0
	}
	total := int64(0)
	for _, m := range r.models {
		total += m.live.Load()
	}
	return total
}

// options are those of a session: small for the live set, so that some fifty
// memtables hold it and it takes several levels, and others each time.
func options(seed uint64, session, keys int, stalled func(db.WriteStallInfo)) *db.Options {
	rnd := rand.New(rand.NewPCG(seed, uint64(session)))
	live := int64(workers * keys * meanLive)
	return &db.Options{
		Memtables:  db.MemtableOptions{Size: int(max(smallestTable, live/64))},
		Tables:     db.TableOptions{Size: max(smallestTable, live/64)},
		Compaction: db.CompactionOptions{MaxLevelBase: live / 8, MaxConcurrent: 1 + rnd.IntN(3)},
		Cache:      db.CacheOptions{Size: live / 4, MaxOpenFiles: 20 + rnd.IntN(100)}, Limits: db.LimitOptions{ManifestSize: 64 << 10},
		TrackOpen:     true,
		EventListener: &db.EventListener{WriteStall: stalled},
	}
}
