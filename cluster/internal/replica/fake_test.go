package replica

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

var _ State = (*machine.Machine)(nil)

// line is a Log of one node that commits when a test says so, or at once.
type line struct {
	mu       sync.Mutex
	state    *machine.Machine
	term     uint64
	leads    bool
	leader   string
	held     bool // nothing is committed
	refused  error
	verified error // of ReadIndex
	index    uint64
	waiting  []*proposal
	changed  chan struct{}
	asked    int           // how often the leader was asked
	answers  chan struct{} // its answers wait for it; nil: they do not
	silent   error         // of AskReadIndex
}

type proposal struct {
	data     []byte
	term     uint64
	index    uint64
	response any
	err      error
	done     chan struct{}
}

func newLine(s *machine.Machine) *line {
	return &line{state: s, term: 1, leads: true, leader: "1", changed: make(chan struct{})}
}

func (l *line) Propose(data []byte) (Future, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused != nil {
		return nil, l.refused
	}
	if !l.leads {
		return nil, &kv.NotLeaderError{}
	}
	p := &proposal{data: data, term: l.term, done: make(chan struct{})}
	l.waiting = append(l.waiting, p)
	if !l.held {
		l.commitLocked(len(l.waiting))
	}
	return p, nil
}

// commit commits so many entries.
func (l *line) commit(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commitLocked(n)
}

func (l *line) commitLocked(n int) {
	for _, p := range l.waiting[:n] {
		l.index++
		p.index = l.index
		p.response = l.state.Apply(&raft.Log{Index: p.index, Term: p.term, Data: p.data})
		close(p.done)
	}
	l.waiting = l.waiting[n:]
}

// lead begins a term, as a leader or not. What waits is lost or unknown.
func (l *line) lead(leads bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.waiting {
		p.err = err
		close(p.done)
	}
	l.waiting, l.leads, l.leader = nil, leads, "1"
	if !leads {
		l.leader = "2"
	}
	l.term++
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *line) ReadIndex(context.Context) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index, l.verified
}

func (l *line) Confirm(_ context.Context, term uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.verified != nil:
		return l.verified
	case !l.leads:
		return &kv.NotLeaderError{}
	case l.term != term:
		return kv.ErrDeposed
	}
	return nil
}

func (l *line) Term() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

func (l *line) Leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads
}

func (l *line) Leader() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

func (l *line) AskReadIndex(ctx context.Context) (uint64, error) {
	l.mu.Lock()
	l.asked++
	index, err, answers := l.index, l.silent, l.answers
	l.mu.Unlock()
	if answers != nil {
		select {
		case <-answers:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return index, err
}

func (l *line) LeadershipChanged() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

func (l *line) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (p *proposal) Wait(ctx context.Context) (uint64, any, error) {
	select {
	case <-p.done:
		return p.index, p.response, p.err
	case <-ctx.Done():
		return 0, nil, errors.Join(kv.ErrUnknown, ctx.Err())
	}
}

func (p *proposal) Done() <-chan struct{} { return p.done }

// rig is a replica with what it stands on. clock is the node's.
type rig struct {
	*Replica
	t     *testing.T
	state *machine.Machine
	log   *line
	mu    sync.Mutex
	clock int64
	since time.Duration // Options.Elapsed
}

func newRig(t *testing.T) *rig {
	state, err := machine.Open(machine.Options{Dir: "state", FS: vfs.NewMem()})
	require.NoError(t, err)
	g := &rig{t: t, state: state, clock: 1000}
	g.log = newLine(g.state)
	g.Replica = Start(Options{
		Group: 3, State: g.state, Log: g.log, Logger: slog.New(slog.DiscardHandler),
		Addr: func(id string) string { return "node" + id },
		Clock: func() int64 {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.clock
		},
		Elapsed: func() time.Duration {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.since
		},
		StaleBound: 4 * time.Second,
	})
	t.Cleanup(func() {
		g.log.lead(false, kv.ErrUnknown)
		g.Close()
		require.NoError(t, g.state.Close())
	})
	return g
}

// stored returns how many keys with one of some prefixes the state has.
func (g *rig) stored(prefixes ...byte) (n int) {
	require.NoError(g.t, g.state.WithDB(func(d *db.DB) error {
		all, errOf := d.All(nil)
		for key := range all {
			if slices.Contains(prefixes, key[0]) {
				n++
			}
		}
		return errOf()
	}))
	return n
}

func (g *rig) at(ms int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock = ms
}

// pass lets time pass for Options.Elapsed.
func (g *rig) pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.since += d
}

// put proposes a write.
func (g *rig) put(key, value string, expireAt int64) kv.Pending {
	g.t.Helper()
	p, err := g.Update(g.t.Context(), func(tx kv.Tx) error {
		tx.Put([]byte(key), kv.Value{Data: []byte(value), ExpireAt: expireAt})
		return nil
	})
	require.NoError(g.t, err)
	return p
}

func (g *rig) mustPut(key, value string) {
	g.t.Helper()
	require.NoError(g.t, g.put(key, value, 0).Wait(g.t.Context()))
}

// get is a linearizable read; "-" is an absent key.
func (g *rig) get(key string) string {
	g.t.Helper()
	got, err := g.tryGet(key, false)
	require.NoError(g.t, err)
	return got
}

func (g *rig) tryGet(key string, stale bool) (got string, err error) {
	err = g.View(g.t.Context(), stale, func(r kv.Reader) error {
		got, err = read(r, key)
		return err
	})
	return got, err
}

func read(r kv.Reader, key string) (string, error) {
	v, ok, err := r.Get([]byte(key))
	if !ok {
		return "-", err
	}
	return string(v.Data), err
}

// append appends to a value, as a command would that reads and writes.
func (g *rig) append(key, part string) (kv.Pending, error) {
	return g.Update(g.t.Context(), func(tx kv.Tx) error {
		v, _, err := tx.Get([]byte(key))
		if err != nil {
			return err
		}
		tx.Put([]byte(key), kv.Value{Data: append(bytes.Clone(v.Data), part...), ExpireAt: v.ExpireAt})
		return nil
	})
}

func (g *rig) mustAppend(key, part string) {
	g.t.Helper()
	p, err := g.append(key, part)
	require.NoError(g.t, err)
	require.NoError(g.t, p.Wait(g.t.Context()))
}
