package interop

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sievedb/sievedb/db"
	"github.com/stretchr/testify/require"
)

// Databases in which goleveldb's RecoverFile or LevelDB's RepairDB had taken up tables that
// waited for their removal, and put those of all levels on level 0, were never compacted,
// and Get answered with old versions. Each history hands one database to several engines
// and repair tools, in any order, and checks it at each turn. To repeat one that failed:
// -interop.histories=1 and as -interop.historyseed the number that its name shows.
func TestRandomHistoriesOfEnginesAndRepairTools(t *testing.T) {
	var tools []Repairer
	for _, o := range others {
		if o.name == "leveldb" && levelDBMissing != nil {
			t.Logf("left out of the histories: %v", levelDBMissing)
			continue
		}
		tools = append(tools, o.engine(t).(Repairer))
	}
	for i := range *histories {
		seed := *historySeed + uint64(i)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			playHistory(t, tools, seed)
		})
	}
}

// history is a session whose database is repaired now and then.
type history struct {
	randomPlay
	tools []Repairer
	// written are all values that a key ever had. Those of a deleted key may come back in a
	// repair, which takes up tables that the MANIFEST does not name any more.
	written map[string]map[string]bool
	// mixed says that level 0 holds the tables of all levels since a repair: the other
	// engines' own Gets answer with any version then, and only their iterators are right.
	mixed bool
	// logOfLevelDB says that LevelDB had the database last.
	logOfLevelDB bool
	steps        []string
}

func playHistory(t *testing.T, tools []Repairer, seed uint64) {
	h := &history{tools: tools, written: map[string]map[string]bool{}}
	h.rng = rand.New(rand.NewPCG(seed, 24))
	h.keys = pick(h.rng, randomKeys[:3])
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history: %v", h.steps)
		}
	})
	h.session = newSession(t, h.engine(), h.options())
	h.logOfLevelDB = h.session.engine == Engine(theLevelDB)
	h.session.rng = h.rng
	h.steps = append(h.steps, h.session.engine.Name())
	for range 3 + h.rng.IntN(4) {
		h.takeTurn()
		h.endTurn()
		for range h.rng.IntN(3) {
			h.repair()
		}
		h.session.opts = h.options()
		h.open(h.engine())
	}
	h.session.close()
	h.open(SieveDB{})
	h.session.compact()
	h.verify()
	h.session.close()
}

// engine chooses who opens the database next: SieveDB as often as the others. goleveldb does not follow LevelDB, of
// whose log it drops or refuses records: LevelDB's MANIFEST has a sequence number ahead of them.
func (h *history) engine() Engine {
	n := h.rng.IntN(len(h.tools) + 2)
	if n >= len(h.tools) || h.tools[n] == Repairer(GoLevelDB{}) && h.logOfLevelDB {
		return SieveDB{}
	}
	return h.tools[n]
}

// options are small, so that tables come and go.
func (h *history) options() Options {
	o := h.randomPlay.options()
	o.WriteBufferSize, o.TableSize, o.LevelBase = pick(h.rng, []int{8 << 10, 64 << 10}), 16<<10, 32<<10
	return o
}

func (h *history) open(e Engine) {
	h.steps = append(h.steps, e.Name())
	h.session.openExisting(e)
	h.logOfLevelDB = e == Engine(theLevelDB)
	h.verify()
}

// takeTurn writes, flushes and compacts.
func (h *history) takeTurn() {
	s := h.session
	for range 50 + h.rng.IntN(200) {
		switch n := h.rng.IntN(200); {
		case n < 2:
			s.flush()
		case n == 2:
			h.compact()
		default:
			ops := h.batch()
			for _, op := range ops {
				h.note(op)
			}
			s.write(ops...)
		}
	}
	if h.rng.IntN(3) == 0 {
		h.compact() // so that the process dies during the removal of the inputs
	}
	h.verify()
}

func (h *history) compact() {
	h.steps = append(h.steps, "compact")
	h.session.compact()
	h.mixed = false
}

func (h *history) note(op Op) {
	if op.Delete {
		return
	}
	values := h.written[string(op.Key)]
	if values == nil {
		values = map[string]bool{}
		h.written[string(op.Key)] = values
	}
	values[string(op.Value)] = true
}

func (h *history) endTurn() {
	if h.rng.IntN(2) == 0 {
		h.steps = append(h.steps, "kill")
		h.session.kill()
	} else {
		h.steps = append(h.steps, "close")
		h.session.close()
	}
}

// repair makes a tool write a new MANIFEST of all tables and logs, and continues with the resulting tables.
func (h *history) repair() {
	s := h.session
	tool := pick(h.rng, h.tools)
	h.steps = append(h.steps, "repair by "+tool.Name())
	require.NoError(s.t, tool.Repair(s.dir, s.opts), "%s repairs", tool.Name())
	h.mixed, h.logOfLevelDB = true, false
	found := newestInTables(s.t, s.dir)
	for _, key := range s.model.Keys() {
		require.Equal(s.t, s.model.Value(key), found.Value(key), "what %s left of a key that was not deleted", tool.Name())
	}
	for _, key := range found.Keys() {
		require.True(s.t, h.written[key][string(found.Value(key))], "%s made up a value", tool.Name())
	}
	s.model = found
}

// verify checks what the engine answers.
func (h *history) verify() {
	s := h.session
	if s.engine.Name() != (SieveDB{}).Name() {
		if !h.mixed {
			s.verify()
			return
		}
		for _, backward := range []bool{false, true} {
			entries, err := s.db.Scan(backward)
			require.NoError(s.t, err)
			if backward {
				slices.Reverse(entries)
			}
			require.NoError(s.t, s.model.compare(entries), "%s walks (backward: %v)", s.engine.Name(), backward)
		}
		return
	}
	s.verify()
	h.verifyAgreement(s.db.(*sieveDB).d)
}

// verifyAgreement compares all ways to ask SieveDB for keys with the model.
func (h *history) verifyAgreement(d *db.DB) {
	t, model := h.session.t, h.session.model
	keys := spread(model.keyBytes(), 300)
	keys = append(keys, spread(model.Absent(keys), 100)...)
	for key := range h.written {
		if model.Value(key) == nil && len(keys) < 500 {
			keys = append(keys, []byte(key))
		}
	}
	snapshot := d.NewSnapshot()
	defer snapshot.Close()
	require.NoError(t, model.Check(sieveView(snapshot)), "a snapshot")
	values, err := d.MultiGet(keys)
	require.NoError(t, err)
	seen, err := snapshot.MultiGet(keys)
	require.NoError(t, err)
	for i, key := range keys {
		want, found := model.values[string(key)]
		require.Equal(t, found, values[i] != nil)
		require.True(t, bytes.Equal(want, values[i]), "MultiGet")
		require.True(t, bytes.Equal(want, seen[i]), "MultiGet of a snapshot")
		has, err := d.Has(key)
		require.NoError(t, err)
		require.Equal(t, found, has, "Has")
		x, err := d.Explain(key)
		require.NoError(t, err)
		require.Equal(t, found, x.Found, "Explain")
	}
	report, err := d.Check(context.Background())
	require.NoError(t, err)
	require.Empty(t, report.Faults)
}
