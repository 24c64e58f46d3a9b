package replica

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/db"
)

// memory is a State in a map, by the keys of the database.
type memory struct {
	mu      sync.Mutex
	data    map[string][]byte
	clock   int64
	index   uint64
	chain   layout.Chain
	applied chan struct{} // closed at the next entry
	err     error
	fails   error // becomes err when a read waits
}

func newMemory() *memory { return &memory{data: map[string][]byte{}, applied: make(chan struct{})} }

func (m *memory) apply(index, term uint64, entry []byte) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index = index
	close(m.applied)
	m.applied = make(chan struct{})
	e, err := layout.ParseEntry(entry)
	if err != nil {
		return err
	}
	if !e.Continues(m.chain, term) {
		return layout.ErrSuperseded
	}
	m.chain = e.Chain
	m.clock = max(m.clock, e.Time)
	if e.Kind == layout.EntryDeleteAll {
		maps.DeleteFunc(m.data, func(key string, _ []byte) bool {
			return key[0] == layout.KeyPrefix || key[0] == layout.ExpiryPrefix
		})
	}
	if len(e.Payload) == 0 {
		return nil
	}
	var b db.Batch
	if err := b.UnmarshalBinary(e.Payload); err != nil {
		return err
	}
	for _, entry := range b.All() {
		if entry.Kind == db.EntryPut {
			m.data[string(entry.Key)] = bytes.Clone(entry.Value)
		} else {
			delete(m.data, string(entry.Key))
		}
	}
	return nil
}

func (m *memory) View(f func(r kv.Reader) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return f((*memoryReader)(m))
}

func (m *memory) WaitApplied(ctx context.Context, index uint64) error {
	for {
		m.mu.Lock()
		done, next := m.index >= index, m.applied
		if m.fails != nil {
			m.err, done = m.fails, false
		}
		err := m.err
		m.mu.Unlock()
		if err != nil {
			return err
		}
		if done {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *memory) Clock() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock
}

func (m *memory) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

func (m *memory) Meta(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data[string(layout.Meta(name))], nil
}

func (m *memory) ExpiredBefore(now int64, limit int, f func(key []byte, at int64) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.data)) {
		at, _, userKey, err := layout.ParseExpiry([]byte(key))
		if err == nil && at <= now && limit > 0 && f(userKey, at) {
			limit--
		}
	}
	return nil
}

func (m *memoryReader) Outcome(slot uint16, id []byte) ([]byte, error) {
	return m.data[string(layout.AppendOutcomeKey(nil, slot, id))], nil
}

func (m *memory) OutcomesBefore(now int64, limit int, f func(slot uint16, id []byte, until int64) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(m.data)) {
		until, slot, id, err := layout.ParseOutcomeExpiry([]byte(key))
		if err == nil && until <= now && limit > 0 && f(slot, id, until) {
			limit--
		}
	}
	return nil
}

// memoryReader is memory with its mutex locked.
type memoryReader memory

func (r *memoryReader) Now() int64 { return r.clock }

func (r *memoryReader) Get(key []byte) (kv.Value, bool, error) {
	t := tx{}
	b, ok := r.data[string(t.dbKey(key))]
	if !ok {
		return kv.Value{}, false, nil
	}
	v, err := layout.ParseValue(b)
	return v, v.ExpireAt == 0 || v.ExpireAt > r.clock, err
}

func (r *memoryReader) Scan(slot uint16, start, limit []byte, reverse bool, f func(key []byte, v kv.Value) bool) error {
	keys := slices.Sorted(maps.Keys(r.data))
	if reverse {
		slices.Reverse(keys)
	}
	for _, dbKey := range keys {
		s, key, err := layout.ParseKey([]byte(dbKey))
		if err != nil || s != slot || bytes.Compare(key, start) < 0 || limit != nil && bytes.Compare(key, limit) >= 0 {
			continue
		}
		v, err := layout.ParseValue(r.data[dbKey])
		if err != nil {
			return err
		}
		if (v.ExpireAt == 0 || v.ExpireAt > r.clock) && !f(key, v) {
			return nil
		}
	}
	return nil
}

// line is a Log of one node that commits when a test says so, or at once.
type line struct {
	mu       sync.Mutex
	state    *memory
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

func newLine(s *memory) *line {
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
		p.response = l.state.apply(p.index, p.term, p.data)
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
	state *memory
	log   *line
	mu    sync.Mutex
	clock int64
	since time.Duration // Options.Elapsed
}

func newRig(t *testing.T) *rig {
	g := &rig{t: t, state: newMemory(), clock: 1000}
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
	})
	return g
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
