package db

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// expiryModel runs random operations on a store and on a map with times, and moves the clock.
type expiryModel struct {
	*modelRun
	clock *testClock
	time  int64 // the latest that the store has seen
	timed map[string]timedValue
	n     int
}

type timedValue struct {
	value   string
	expires int64 // 0: never
}

// A value is shown until its time and never again, by lookups and iterators in both directions,
// whatever the clock does, whatever is flushed, compacted, loaded or opened again. Snapshots,
// transactions and iterators show what had not expired when they were opened.
func TestExpiryAgreesWithAModel(t *testing.T) {
	rounds := 10
	if raceEnabled || testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			m := newExpiryModel(t, seed)
			for range 2500 {
				m.step()
			}
			m.end()
		})
	}
}

func newExpiryModel(t *testing.T, seed uint64) *expiryModel {
	m := &expiryModel{modelRun: newModelRun(t, seed), clock: newTestClock(), timed: map[string]timedValue{}}
	m.close()
	m.opts.Expiry = ExpiryOptions{Prefixes: [][]byte{[]byte("k1"), []byte("k2"), []byte("k3"), []byte("k5")}, Clock: m.clock.now}
	m.opts.Compaction.L0Trigger = 1 + m.rnd.IntN(4)
	if m.rnd.IntN(2) == 0 {
		m.opts.Compaction.Filter = func(_, value []byte) ([]byte, bool) { return append([]byte{}, value...), true }
	}
	m.open()
	return m
}

func (m *expiryModel) open() {
	m.d = mustOpen(m.t, m.opts)
	m.see()
}

// see makes sure that the store has seen the present time.
func (m *expiryModel) see() {
	m.d.Metrics()
	m.time = max(m.time, m.clock.ms.Load())
}

// write draws a write and records it. A ttl of 0 means Put, a negative one Delete.
func (m *expiryModel) write() (key, value string, ttl time.Duration) {
	m.n++
	key, value = string(m.key()), fmt.Sprintf("%d%s", m.n, strings.Repeat("v", m.rnd.IntN(60)))
	switch op := m.rnd.IntN(10); {
	case op == 0:
		delete(m.timed, key)
		return key, "", -1
	case op < 3 || !m.d.scans.Expiry.Under([]byte(key)):
		m.timed[key] = timedValue{value: value}
	default:
		ttl = time.Duration(1+m.rnd.IntN(400)) * time.Millisecond
		m.timed[key] = timedValue{value, m.time + ttl.Milliseconds()}
	}
	return key, value, ttl
}

// alive returns what is visible now.
func (m *expiryModel) alive() map[string]string {
	shown := map[string]string{}
	for key, v := range m.timed {
		if v.expires == 0 || m.time < v.expires {
			shown[key] = v.value
		}
	}
	return shown
}

func (m *expiryModel) step() {
	switch op := m.rnd.IntN(100); {
	case op < 35:
		m.put(m.write())
	case op < 42:
		m.batch()
	case op < 62:
		m.get()
	case op < 72:
		m.moveClock()
	case op < 77:
		m.newView(m.alive())
	case op < 82 && len(m.views) > 0:
		m.closeView(m.rnd.IntN(len(m.views)))
	case op < 84:
		it, err := m.d.NewIterator(m.bounds())
		require.NoError(m.t, err)
		checkIterator(m.t, it, m.rnd, m.alive())
	case op < 88:
		require.NoError(m.t, m.d.Flush())
	case op < 90:
		require.NoError(m.t, m.d.Compact(m.t.Context(), m.key(), nil))
	case op < 92:
		m.load()
	case op == 92:
		m.reopen()
	case op < 95:
		m.deleteRange()
	default:
		m.d.compactor.Schedule()
	}
}

func (m *expiryModel) put(key, value string, ttl time.Duration) {
	wo := []*WriteOptions{nil, NoSync, Buffered}[m.rnd.IntN(3)] // alone, and through the queue
	switch {
	case ttl < 0:
		require.NoError(m.t, m.d.Delete([]byte(key), wo))
	case ttl == 0:
		require.NoError(m.t, m.d.Put([]byte(key), []byte(value), wo))
	default:
		require.NoError(m.t, m.d.PutTTL([]byte(key), []byte(value), ttl, wo))
	}
}

// batch writes several entries by a batch or a transaction.
func (m *expiryModel) batch() {
	var b Batch
	for range m.rnd.IntN(12) {
		switch key, value, ttl := m.write(); {
		case ttl < 0:
			b.Delete([]byte(key))
		case ttl == 0:
			b.Put([]byte(key), []byte(value))
		default:
			b.PutTTL([]byte(key), []byte(value), ttl)
		}
	}
	if m.rnd.IntN(2) == 0 {
		require.NoError(m.t, m.d.Apply(&b, NoSync))
		return
	}
	require.NoError(m.t, m.d.Update(func(tx *Transaction) error {
		tx.SetWriteOptions(NoSync)
		tx.batch.Append(&b.content)
		return nil
	}))
	require.NoError(m.t, m.d.Update(func(tx *Transaction) error {
		it, err := tx.NewIterator(nil)
		require.NoError(m.t, err)
		checkIterator(m.t, it, m.rnd, m.alive())
		return nil
	}))
}

// deleteRange deletes a range, and writes into it, in one batch.
func (m *expiryModel) deleteRange() {
	start, limit := string(m.key()), string(m.key())
	if start > limit {
		start, limit = limit, start
	}
	maps.DeleteFunc(m.timed, func(key string, _ timedValue) bool { return key >= start && key < limit })
	var b Batch
	b.DeleteRange([]byte(start), []byte(limit))
	if m.rnd.IntN(2) == 0 {
		b.Put([]byte("k15"), []byte("put"))
		b.PutTTL([]byte("k16"), []byte("put for a second"), time.Second)
		m.timed["k15"], m.timed["k16"] = timedValue{value: "put"}, timedValue{"put for a second", m.time + 1000}
	}
	require.NoError(m.t, m.d.Apply(&b, NoSync))
}

func (m *expiryModel) get() {
	alive, keys := m.alive(), make([][]byte, m.rnd.IntN(40))
	for i := range keys {
		keys[i] = m.key()
	}
	checkGet(m.t, m.d, m.key(), alive)
	values, err := m.d.MultiGet(keys)
	require.NoError(m.t, err)
	for i, key := range keys {
		want, ok := alive[string(key)]
		require.Equal(m.t, ok, values[i] != nil, "key %s", key)
		require.Equal(m.t, want, string(values[i]))
	}
	x, err := m.d.Explain(m.key())
	require.NoError(m.t, err)
	require.False(m.t, x.Found && x.Expired)
}

func (m *expiryModel) moveClock() {
	switch m.rnd.IntN(12) {
	case 0:
		m.clock.move(-time.Duration(m.rnd.IntN(1000)) * time.Millisecond)
	case 1:
		m.clock.move(time.Second)
	default:
		m.clock.move(time.Duration(m.rnd.IntN(40)) * time.Millisecond)
	}
	m.see()
}

func (m *expiryModel) load() {
	l, err := m.d.NewLoader()
	require.NoError(m.t, err)
	for i := range 3 * (1 + m.rnd.IntN(5)) {
		m.n++
		key, value := fmt.Sprintf("k3%02d", 10+i), fmt.Sprint(m.n)
		if i%3 == 0 {
			require.NoError(m.t, l.Put([]byte(key), []byte(value)))
			m.timed[key] = timedValue{value: value}
			continue
		}
		require.NoError(m.t, l.PutTTL([]byte(key), []byte(value), 100*time.Millisecond))
		m.timed[key] = timedValue{value, m.time + 100}
	}
	require.NoError(m.t, l.Commit())
}

// reopen opens the store again, sometimes with a clock that was set back meanwhile.
func (m *expiryModel) reopen() {
	m.close()
	m.clock.move(time.Duration(m.rnd.IntN(400)-300) * time.Millisecond)
	m.open()
}

// end lets all values expire. Then nothing of them is left.
func (m *expiryModel) end() {
	m.reopen()
	m.clock.move(time.Hour)
	m.see()
	require.NoError(m.t, m.d.Compact(m.t.Context(), nil, nil))
	alive := m.alive()
	it, err := m.d.NewIterator(nil)
	require.NoError(m.t, err)
	checkIterator(m.t, it, m.rnd, alive)
	var entries uint64
	for _, l := range m.d.state().Version.Levels {
		for _, f := range l.Files {
			entries += f.Counts.Load().Entries
		}
	}
	require.EqualValues(m.t, len(alive), entries)
	requireNoFaults(m.t, m.d)
	require.NoError(m.t, m.d.Close())
}
