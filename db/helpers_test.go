package db

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/filter"
	"github.com/sievedb/sievedb/internal/test/crashtest/order"
	"github.com/sievedb/sievedb/internal/write/commit"
	"github.com/sievedb/sievedb/util"
	"github.com/sievedb/sievedb/vfs"
)

// testOptions returns options with small sizes, so that a few thousand keys fill several levels. The
// order of the store's operations is checked; see checkOrder.
func testOptions(fs vfs.FS) *Options {
	return &Options{
		FS: checkOrder(fs), Memtables: MemtableOptions{Size: 16 << 10}, Tables: TableOptions{Size: 8 << 10, BlockSize: 512},
		Compaction: CompactionOptions{MaxLevelBase: 32 << 10},
		Cache:      CacheOptions{Size: 256 << 10},
	}
}

// brokenOrder has the violations that all checkers of the test binary found. TestMain fails the run if
// there are any, because some tests open stores without mustOpen.
var brokenOrder struct {
	sync.Mutex
	violations []string
}

// checkOrder wraps fsys in a checker of the order of operations, unless it is one.
func checkOrder(fsys vfs.FS) vfs.FS {
	if _, ok := fsys.(*order.FS); ok || fsys == nil {
		return fsys
	}
	return order.NewReporting(fsys, func(v string) {
		brokenOrder.Lock()
		defer brokenOrder.Unlock()
		brokenOrder.violations = append(brokenOrder.violations, v)
	})
}

func mustOpen(t testing.TB, o *Options) *DB {
	t.Helper()
	if _, test := t.(*testing.T); test && o != nil && o.FS != nil {
		checked := *o
		checked.FS = checkOrder(o.FS)
		o = &checked
		t.Cleanup(func() { require.Empty(t, o.FS.(*order.FS).Violations(), "order of operations") })
	}
	d, err := Open("db", o)
	require.NoError(t, err)
	return d
}

func openTest(t testing.TB, o *Options) *DB {
	t.Helper()
	d := mustOpen(t, o)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func testKey(i int) []byte { return fmt.Appendf(nil, "key%06d", i) }

// testValue returns a value of 100 bytes that differs from key to key.
func testValue(i int) []byte { return fmt.Appendf(nil, "value%06d%089d", i, i) }

// fill puts keys [from, to) in random order.
func fill(t testing.TB, d *DB, from, to int) {
	t.Helper()
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(to - from) {
		require.NoError(t, d.Put(testKey(from+i), testValue(from+i), NoSync))
	}
}

// largeWrite is the size from which a Put makes no batch; package commit says why.
const largeWrite = 1 << 20

// holdWriters leads the queue of writers until release is called.
func holdWriters(t testing.TB, d *DB) (release func()) {
	t.Helper()
	leads, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- d.commit.Lead(background, func(*commit.Leader) error {
			close(leads)
			<-end
			return nil
		})
	}()
	<-leads
	return func() {
		close(end)
		require.NoError(t, <-ended)
	}
}

// waitForWriters returns when n writers wait for the leader.
func waitForWriters(t testing.TB, d *DB, n int) {
	t.Helper()
	eventually(t, func() bool { return d.commit.Status().Queued == n })
}

// advance makes seq the last sequence number.
func advance(t testing.TB, d *DB, seq uint64) {
	t.Helper()
	require.NoError(t, d.commit.Lead(background, func(l *commit.Leader) error {
		l.Advance(seq, true)
		return nil
	}))
}

// settle flushes and waits until no compaction is due.
func settle(t testing.TB, d *DB) {
	t.Helper()
	require.NoError(t, d.Flush())
	for {
		waitUntilIdle(d)
		require.NoError(t, d.compactor.Status().Err)
		require.NoError(t, d.commit.Err())
		d.compactor.EndBurst()
		if d.compactor.Schedule(); idle(d) {
			return
		}
	}
}

// idle reports whether no compaction and no flush is running.
func idle(d *DB) bool {
	s := d.compactor.Status()
	return s.Running == 0 && !s.Flushing
}

func requireValue(t testing.TB, d *DB, key, want []byte) {
	t.Helper()
	got, err := d.Get(key)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// constantPolicy answers all queries the same: never denies every key, and always matches every key.
type constantPolicy struct{ verdict bool }

func (p constantPolicy) Name() string { return fmt.Sprintf("test.constant.%v", p.verdict) }
func (p constantPolicy) CreateFilter(dst []byte, keys [][]byte) []byte {
	return append(dst, "filter"...)
}
func (p constantPolicy) KeyMayMatch(key, f []byte) bool { return p.verdict }

// NewGenerator returns a generator that claims that its filters deny no stored key. Otherwise the
// writer would refuse them.
func (p constantPolicy) NewGenerator() filter.Generator { return &constantGenerator{policy: p} }

type constantGenerator struct {
	policy constantPolicy
	keys   int
}

func (g *constantGenerator) Add([]byte) { g.keys++ }
func (g *constantGenerator) Len() int   { return g.keys }
func (g *constantGenerator) AppendFilter(dst []byte) []byte {
	g.keys = 0
	return g.policy.CreateFilter(dst, nil)
}
func (g *constantGenerator) AppendChecked(dst []byte) ([]byte, int) { return g.AppendFilter(dst), 0 }

var never, always filter.Policy = constantPolicy{false}, constantPolicy{true}

// eventually waits for a condition that background work fulfils. Unlike testify's, it starts no
// goroutine, and it asserts nothing about the time.
func eventually(t testing.TB, condition func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute) // only a store that hangs reaches it
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			require.Fail(t, "the condition was never fulfilled")
		}
	}
}

// restampFirstBlock sets the compression byte of a table's first data block and makes its checksum
// match, so that only the byte is wrong.
func restampFirstBlock(t testing.TB, fsys vfs.FS, table string, kind byte) {
	t.Helper()
	data := readFile(t, fsys, table)
	for end := 0; ; end++ { // the block ends where the checksum over the bytes before matches
		sum := data[end+1:]
		if binary.LittleEndian.Uint32(sum) == util.MaskCRC(util.CRC32C(data[:end+1])) {
			data[end] = kind
			binary.LittleEndian.PutUint32(sum, util.MaskCRC(util.CRC32C(data[:end+1])))
			break
		}
	}
	require.NoError(t, fsys.Remove(table))
	writeFile(t, fsys, table, data)
}
