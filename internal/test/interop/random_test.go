package interop

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRandomDatabases lets two engines take turns at one database, with random options, keys, batches, snapshots,
// flushes, compactions and deaths, and checks it at each turn. To repeat one that failed: -interop.random=1 and the
// seed that its name shows.
func TestRandomDatabases(t *testing.T) {
	t.Logf("-interop.seed=%d -interop.random=%d", *randomSeed, *randomDatabases)
	forEachDirection(t, func(t *testing.T, writer, reader Engine) {
		for i := range *randomDatabases {
			seed := *randomSeed + uint64(i)
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				playRandomDatabase(t, writer, reader, seed)
			})
		}
	})
}

func playRandomDatabase(t *testing.T, writer, reader Engine, seed uint64) {
	r := &randomPlay{rng: rand.New(rand.NewPCG(seed, 0))}
	r.keys = pick(r.rng, randomKeys)
	r.session = newSession(t, writer, r.options())
	r.session.rng = r.rng
	turns := 2 + r.rng.IntN(3)
	for turn := range turns {
		if turn > 0 {
			engine := []Engine{writer, reader}[turn%2]
			r.session.opts = r.options()
			r.session.openExisting(engine)
			r.session.verify()
		}
		r.takeTurn()
		if r.rng.IntN(3) == 0 {
			r.session.kill()
		} else {
			r.session.close()
		}
	}
	for _, engine := range []Engine{reader, writer} {
		r.session.openExisting(engine)
		r.session.verify()
		r.session.close()
	}
}

type randomPlay struct {
	session *session
	rng     *rand.Rand
	keys    func(*rand.Rand) []byte
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// randomKeys are ways to make keys; each meets itself often enough that keys are overwritten and deleted.
var randomKeys = []func(*rand.Rand) []byte{
	func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "%06d", rng.IntN(2000)) },
	func(rng *rand.Rand) []byte { return fmt.Appendf(nil, "user/%d/%x", rng.IntN(30), rng.IntN(100)) },
	func(rng *rand.Rand) []byte { // few letters, all lengths from 0 on
		key := make([]byte, rng.IntN(9))
		for i := range key {
			key[i] = "\x00\x01\x7f\x80\xfe\xff"[rng.IntN(6)]
		}
		return key
	},
	func(rng *rand.Rand) []byte { // rare long ones
		n := 1 + rng.IntN(12)
		if rng.IntN(200) == 0 {
			n = 1 + rng.IntN(64<<10)
		}
		return bytes.Repeat([]byte{byte(rng.IntN(256))}, n)
	},
	func(rng *rand.Rand) []byte { // nearly all different
		key := make([]byte, 7)
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		return key
	},
}

func (r *randomPlay) options() Options {
	return Options{
		BloomBits:       pick(r.rng, []int{0, 5, 10, 20}),
		FilterKind:      pick(r.rng, []FilterKind{BothFilters, BothFilters, CacheLineFilter, LevelDBFilter, FuseFilter, FuseAndLevelDBFilters}),
		Compression:     pick(r.rng, []string{Snappy, None}),
		WriteBufferSize: pick(r.rng, []int{64 << 10, 256 << 10, 4 << 20}),
		BlockSize:       pick(r.rng, []int{1 << 10, 4 << 10, 32 << 10}),
		TableSize:       pick(r.rng, []int{16 << 10, 256 << 10, 2 << 20}),
		LevelBase:       pick(r.rng, []int{32 << 10, 1 << 20}),
		ReuseLogs:       r.rng.IntN(4) == 0,
	}
}

func (r *randomPlay) takeTurn() {
	s := r.session
	var snapshot Snapshot
	var seen *Model
	for range 100 + r.rng.IntN(500) {
		switch n := r.rng.IntN(300); {
		case n == 0:
			s.flush()
		case n == 1:
			s.compact()
		case n == 2:
			start, limit := r.keys(r.rng), r.keys(r.rng)
			if bytes.Compare(start, limit) > 0 {
				start, limit = limit, start
			}
			require.NoError(s.t, s.db.Compact(start, limit))
		case n < 5 && snapshot == nil && !splitsKeys(s.engine):
			var err error
			snapshot, err = s.db.Snapshot()
			require.NoError(s.t, err)
			seen = s.model.Clone()
		default:
			s.write(r.batch()...)
		}
	}
	s.verify()
	if snapshot != nil {
		require.NoError(s.t, seen.Check(snapshot), "%s reads a snapshot", s.engine.Name())
		require.NoError(s.t, snapshot.Release())
	}
}

// splitsKeys reports whether the engine, with a snapshot held, may make databases that
// it reads wrong itself later: TestTheOthersBringADeletedKeyBackThatLevelDBSplitOverTables.
// fillSnapshots lets it hold some over tables that are too small for that.
func splitsKeys(e Engine) bool { return e.Name() == theLevelDB.Name() }

func (r *randomPlay) batch() []Op {
	n := 1 + r.rng.IntN(3)
	if r.rng.IntN(50) == 0 {
		n = r.rng.IntN(500)
	}
	ops := make([]Op, n)
	for i := range ops {
		key := r.keys(r.rng)
		if r.rng.IntN(4) == 0 {
			ops[i] = Delete(key)
		} else {
			ops[i] = Put(key, r.value())
		}
	}
	return ops
}

// value returns one that compresses or does not, mostly short.
func (r *randomPlay) value() []byte {
	n := r.rng.IntN(100)
	if r.rng.IntN(100) == 0 {
		n = r.rng.IntN(70_000)
	}
	if r.rng.IntN(2) == 0 {
		return bytes.Repeat([]byte{byte(r.rng.IntN(256))}, n)
	}
	return r.session.bytes(n)
}
