package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/overview"
	"github.com/sievedb/sievedb/internal/test/fixture"
)

// scrubbedGroup is the group whose states are damaged. All nodes read the map in the state of group 0 all the time.
const scrubbedGroup = 1

// scrubFleet returns three nodes that scrub all the time, with some values.
func scrubFleet(t *testing.T) (*fleet, map[string]string) {
	f := newFleet(t, 2)
	f.o.Scrub = ScrubOptions{BytesPerSecond: 1 << 30, Every: 10 * time.Millisecond}
	f.startThree()
	return f, f.writeSome("scrubbed", 30)
}

// damageOne flips a bit of the first file in a directory of a node whose name has a suffix and that has more bytes than
// an empty one.
func (f *fleet) damageOne(id kv.NodeID, dir, suffix string) string {
	f.t.Helper()
	return f.damageAt(id, dir, suffix, func(int) int { return 20 })
}

// damageAt is damageOne at another place, of a file of some size.
func (f *fleet) damageAt(id kv.NodeID, dir, suffix string, place func(size int) int) string {
	f.t.Helper()
	names, err := f.disks[id].List(dir)
	require.NoError(f.t, err)
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := f.disks[id].Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the store has removed it since
		}
		require.NoError(f.t, err)
		if strings.HasSuffix(name, suffix) && info.Size() > 200 {
			fixture.ChangeFile(f.t, f.disks[id], path, func(data []byte) { data[place(len(data))] ^= 4 })
			return path
		}
	}
	require.Fail(f.t, "there is no such file", "%v", names)
	return ""
}

func (f *fleet) state(id kv.NodeID) *hosted {
	h, err := f.nodes[id].hostedGroup(scrubbedGroup)
	require.NoError(f.t, err)
	return h
}

// found waits until a node's scrub has found a damaged file.
func (f *fleet) found(id kv.NodeID) {
	f.t.Helper()
	f.eventually(func() error {
		if s := f.nodes[id].Scrubbed(); s.Found == 0 {
			return fmt.Errorf("node %s has found nothing: %+v", id, s)
		}
		return nil
	})
}

// healed waits until nothing that a node's scrub has found is left.
func (f *fleet) healed(id kv.NodeID) {
	f.t.Helper()
	f.found(id)
	f.eventually(func() error {
		if s := f.nodes[id].Scrubbed(); s.Healed == 0 {
			return fmt.Errorf("node %s has healed nothing: %+v, %q", id, s, f.nodes[id].scrub.problems())
		}
		return nil
	})
	f.settled(3)
}

func TestAScrubReplacesAStateWithADamagedTableThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, written := scrubFleet(t)
		n := f.nodes["3"]
		flush(t, n, scrubbedGroup)
		before := f.state("3")
		f.damageOne("3", before.state.StateDir(), ".ldb")
		f.healed("3")
		require.NotSame(t, before, f.state("3"))
		require.True(t, n.exists("node/group-0001.damaged"))
		require.EqualValues(t, 1, n.self().Incarnation)
		f.hasAll(written)
		f.hasAll(f.writeSome("later", 5))
		s := n.Scrubbed()
		require.Positive(t, s.Bytes)
		require.Positive(t, s.Passes)
		require.WithinDuration(t, time.Now(), s.LastPass, time.Minute)
		require.Equal(t, 1, s.Found)
	})
}

// A voter that may have forgotten what it acknowledged does not vote as the server that it was.
func TestANodeJoinsAgainWhenAScrubFindsADamagedTableInItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, written := scrubFleet(t)
		n := f.nodes["3"]
		f.eventually(func() error { // a leader hands its leadership over first
			if f.state("3").log.Leads() {
				return nil
			}
			_, err := f.operate(n.o.ID, "RAFT.TRANSFER", "1", "3")
			return errors.Join(err, errors.New("node 3 does not lead yet"))
		})
		require.NoError(t, n.logs.database().Flush())
		f.damageOne("3", "node/log", ".ldb")
		f.joinedAgain(n) // raft may read it before the scrub does
		f.settled(3)
		require.EqualValues(t, 2, n.self().Incarnation)
		f.hasAll(written)
	})
}

// Another node fails after all leaders have let this one out. It stayed out until that one was back, and so no group
// had a majority.
func TestANodeThatIsNeededGoesOnWithTheLogInWhichAScrubFoundDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, written := scrubFleet(t)
		for i := range 60 {
			written[fmt.Sprint("long ", i)] = strings.Repeat(rand.Text(), 300)
			f.write(fmt.Sprint("long ", i), written[fmt.Sprint("long ", i)])
		}
		n := f.nodes["3"]
		f.hasAll(written)
		for _, h := range n.running() { // so that raft does not need the old entries at its start
			require.NoError(t, h.log.Snapshot(f.ctx))
		}
		require.NoError(t, n.logs.database().Flush())
		f.crash("1")
		f.damageAt("3", "node/log", ".ldb", func(size int) int { return size / 4 })
		f.found("3")
		before := n.logs.get()
		before.Damaged(n.scrub.open()[0].err)
		f.eventually(func() error {
			if n.logs.get() == before || n.logFailure() != nil {
				return errors.New("the log is not opened again")
			}
			return nil
		})
		f.hasAll(written)
		f.hasAll(f.writeSome("later", 5))
		require.EqualValues(t, 1, n.self().Incarnation)
		require.Zero(t, n.Scrubbed().Healed)
		require.Len(t, n.scrub.problems(), 1)
		f.start("1")
		f.healed("3")
		require.EqualValues(t, 2, n.self().Incarnation)
		f.hasAll(written)
	})
}

// The records of a log in use are in memory too.
func TestALogInWhichAScrubFindsDamageIsReplacedByTables(t *testing.T) {
	for _, of := range []string{"the log store", "the state"} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, written := scrubFleet(t)
				before, dir := f.state("3"), "node/log"
				if of == "the state" {
					dir = before.state.StateDir()
				}
				path := f.damageOne("3", dir, ".log")
				f.healed("3")
				require.False(t, f.nodes["3"].exists(path))
				require.Same(t, before, f.state("3"), "nothing was taken out")
				require.EqualValues(t, 1, f.nodes["3"].self().Incarnation)
				f.hasAll(written)
			})
		})
	}
}

func TestDamageOfTwoReplicasOfThreeIsReportedAndNotHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, written := scrubFleet(t)
		f.crash("1") // so that both are found before either may be healed
		before := map[kv.NodeID]*hosted{}
		for _, id := range []kv.NodeID{"2", "3"} {
			flush(t, f.nodes[id], scrubbedGroup)
			before[id] = f.state(id)
			f.damageOne(id, before[id].state.StateDir(), ".ldb")
		}
		f.found("2")
		f.found("3")
		waits := func(text string) {
			for id := range before {
				f.eventually(func() error {
					if problems := fmt.Sprint(f.nodes[id].Health().Problems); !strings.Contains(problems, text) {
						return errors.New(problems)
					}
					return nil
				})
			}
		}
		waits("it is not healed yet")
		f.start("1")
		waits("of its 3 voters, 1 others answer and are sound")
		f.look(f.nodes["1"], func(o overview.Overview) bool {
			damaged := slices.DeleteFunc(o.Findings, func(found overview.Finding) bool { return found.Kind != overview.KindDamage })
			return len(damaged) == 2
		})
		for id, h := range before {
			require.Same(t, h, f.state(id))
			require.Zero(t, f.nodes[id].Scrubbed().Healed)
		}
		f.hasAll(written)
	})
}

func TestALeaderLetsOneReplicaOutAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := scrubFleet(t)
		for _, n := range f.nodes {
			h, err := n.hostedGroup(scrubbedGroup)
			require.NoError(t, err)
			if !h.log.Leads() {
				_, err = n.onSpare(f.ctx, spareRequest{scrubbedGroup, "2.1"})
				require.True(t, isElsewhere(err), "only the leader answers")
				continue
			}
			var others []string
			for _, s := range h.servers() {
				if s.ID != h.server {
					others = append(others, s.ID)
				}
			}
			for range 2 {
				_, err = n.onSpare(f.ctx, spareRequest{scrubbedGroup, others[0]})
				require.NoError(t, err)
				_, err = n.onSpare(f.ctx, spareRequest{scrubbedGroup, others[1]})
				require.ErrorContains(t, err, others[0]+" is healing")
			}
		}
	})
}

func TestAScrubOfFilesThatChangeFindsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := scrubFleet(t)
		for round := range 5 {
			f.writeSome(fmt.Sprint("round ", round), 20)
			for _, n := range f.nodes {
				flush(t, n, scrubbedGroup)
				require.NoError(t, n.logs.database().Flush())
				require.NoError(t, n.logs.database().Compact(f.ctx, nil, nil))
			}
		}
		for id, n := range f.nodes {
			require.Positive(t, n.Scrubbed().Passes)
			require.Zero(t, n.Scrubbed().Found, "node %s: %q", id, n.scrub.problems())
		}
	})
}

func TestAPassTakesAWeekUnlessThatIsVerySlowOrFast(t *testing.T) {
	require.EqualValues(t, minScrub, rateFor(1<<30))
	require.EqualValues(t, 165343, rateFor(100e9))
	require.EqualValues(t, maxScrub, rateFor(100e12))
}

func TestAScrubCanBeTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.o.Scrub = ScrubOptions{BytesPerSecond: -1, Every: time.Millisecond}
		f.start("1")
		f.settled(1)
		f.writeSome("off", 3)
		require.Zero(t, f.nodes["1"].Scrubbed())
	})
}
