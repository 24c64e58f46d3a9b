package node

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/vfs"
)

// Node 3 lacks the writes. So does the old directory of node 1, which would vote for node 3, and both would go on
// without them.
func TestADirectoryThatWasRolledBackIsRefused(t *testing.T) {
	for name, copied := range map[string]func(f *fleet) vfs.FS{
		"copied after a stop": func(f *fleet) vfs.FS {
			f.crash("1")
			defer f.start("1")
			return f.disks["1"].(*vfs.Mem).Crash()
		},
		"copied while it ran": func(f *fleet) vfs.FS {
			defer f.nodes["1"].countAgain()
			return f.disks["1"].(*vfs.Mem).Crash()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := threeNodes(t, 1)
				old := copied(f)
				f.eventually(func() error {
					if known := f.nodes["3"].identity.Load().Starts["1"].Start.Number; known != 2 {
						return fmt.Errorf("node 3 knows start %d of node 1", known)
					}
					return nil
				})
				f.settled(3)
				f.crash("3") // so what it knows must be durable
				wrote := f.writeSome("acknowledged", 20)
				f.crash("1")
				f.crash("2")
				f.disks["1"] = old
				f.start("3")
				for range 2 { // the second time it says so without others
					_, err := Start(f.ctx, f.options("1"))
					require.ErrorIs(t, err, ErrRolledBack)
					require.ErrorContains(t, err, "Was node, or its disk, restored from a copy or a snapshot?")
				}
				f.start("2")
				f.disks["1"] = nil
				f.start("1")
				f.settled(3)
				f.hasAll(wrote)
			})
		})
	}
}

func TestAClusterWhoseDirectoriesAreAllRolledBackStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 1)
		wrote := f.writeSome("before", 3)
		old := map[kv.NodeID]vfs.FS{}
		for id := range f.nodes {
			f.crash(id)
			old[id] = f.disks[id].(*vfs.Mem).Crash()
		}
		for _, id := range []kv.NodeID{"1", "2", "3"} {
			f.start(id)
		}
		f.settled(3)
		for id := range old {
			f.crash(id)
		}
		f.disks = old
		for _, id := range []kv.NodeID{"1", "2", "3"} {
			f.start(id)
		}
		f.settled(3)
		f.hasAll(wrote)
	})
}

// Otherwise an old copy that runs for hours, or cannot start for a minute, while the others are down, would get ahead
// of what these remember.
func TestAStartOfWhichNobodyLearnsIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		n := f.start("1")
		n.countAgain()
		require.EqualValues(t, 1, n.identity.Load().Start.Number)
		f.crash("1")
		o := f.options("1")
		taken, err := network.Listen("127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		o.Listen = taken.Addr().String()
		_, err = Start(f.ctx, o)
		require.Error(t, err)
		id, err := readIdentity(o.FS, o.Dir)
		require.NoError(t, err)
		require.EqualValues(t, 1, id.Start.Number)
		require.Equal(t, 2, id.Format, "a program that would drop the starts refuses it")
		n = f.start("1")
		require.EqualValues(t, 2, n.identity.Load().Start.Number)
		n.atlas.hear("2", contact{at: time.Now()})
		n.countAgain()
		require.EqualValues(t, 3, n.identity.Load().Start.Number)
	})
}

func TestWhichStartsOfOthersAreAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start("1")
		n := f.nodes["1"]
		first := wire.Start{}.Next()
		second, copied := first.Next(), first.Next()
		third, later, restarted := second.Next(), second, copied
		for range 40 { // more than a start remembers
			later = later.Next()
		}
		for range 5 {
			restarted = restarted.Next()
		}
		for i, c := range []struct {
			incarnation uint64
			start       wire.Start
			refused     bool
		}{
			{0, wire.Start{}, false}, // it joins
			{2, first, false},
			{2, second, false},
			{2, second, false}, // another connection
			{2, copied, true},
			{2, restarted, true},
			{2, first, true},
			{2, third, false},
			{2, wire.Start{}, false}, // of a process that has no directory yet
			{1, first, false},        // raft knows it no more
			{2, later, false},
			{2, restarted, true},
			{3, first, false}, // it has joined again
			{2, later, false},
			{3, copied, false},
			{3, second, true},
		} {
			err := n.met(wire.Peer{ID: "2", Incarnation: c.incarnation}, c.start)
			require.Equal(t, c.refused, errors.Is(err, ErrRolledBack), "%d: %v", i, err)
		}
		f.crash("1")
		f.start("1")
		require.Equal(t, mark{3, copied.Brief()}, f.nodes["1"].identity.Load().Starts["2"], "it is durable")
	})
}
