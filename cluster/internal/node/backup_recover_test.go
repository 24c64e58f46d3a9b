package node

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/vfs"
)

func recoverOf(fsys vfs.FS, id kv.NodeID) RecoverOptions {
	return RecoverOptions{ID: id, Dir: "node", FS: fsys, Logger: slog.New(slog.DiscardHandler)}
}

func TestTheLastReplicasBecomeAClusterOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		written := f.writeSome("kept", 20)
		f.hasAll(written) // on each replica
		f.crash("1")
		f.crash("2")
		f.crash("3")
		survivor := f.disks["3"]

		var count atomic.Int64
		groups, err := Recover(f.ctx, recoverOf(failing(survivor.(*vfs.Mem).Crash(), &count, 0), "3"))
		require.NoError(t, err)
		require.Len(t, groups, 4)
		for limit := int64(1); limit <= count.Load(); limit += 1 + count.Load()/8 { // interrupted, and with the power cut
			disk := survivor.(*vfs.Mem).Crash()
			_, err = Recover(f.ctx, recoverOf(failing(disk, new(atomic.Int64), limit), "3"))
			require.Error(t, err)
			disk = disk.Crash()
			if existsIn(disk, "node/UNFINISHED") {
				o := f.o
				o.ID, o.FS = "3", disk
				_, err = Start(f.ctx, o)
				require.ErrorContains(t, err, "interrupted")
			}
			_, err = Recover(f.ctx, recoverOf(disk, "3"))
			require.NoError(t, err)
			survivor = disk // the next round recovers what was recovered already
		}

		alone := newFleet(t, 4)
		alone.disks["3"] = survivor
		alone.start("3")
		alone.hasAll(written)
		require.Greater(t, alone.nodes["3"].self().Incarnation, uint64(1))
		after := alone.writeSome("after", 10)
		alone.start("4")
		alone.start("5")
		alone.settled(3)
		alone.hasAll(written)
		alone.hasAll(after)
		alone.crash("3")
		alone.start("3")
		alone.settled(3)
		alone.hasAll(after)

		// Those that were lost return, and are another cluster.
		f.start("1")
		f.start("2")
		var theirs gossip
		n := f.nodes["1"]
		require.ErrorIs(t, n.call(f.ctx, wire.At(alone.nodes["3"].Addr()), "gossip", n.news(), &theirs), wire.ErrOtherCluster)
	})
}

// A replica that moved to another node stays for a moment, or for as long as nobody can drop it. It lacks what the
// group has acknowledged since.
func TestRecoverSaysOfWhichGroupsTheNodeWasNoVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := threeNodes(t, 4)
		f.crash("3")
		disk := f.disks["3"]
		for range 2 { // the second time, the logs have nothing, and the states have all
			groups, err := Recover(f.ctx, recoverOf(disk, "3"))
			require.NoError(t, err)
			for _, g := range groups {
				require.False(t, g.NoVoter)
			}
		}
		state, err := machine.Open(machine.Options{Dir: groupDir("node", 2), FS: disk, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		index, term := state.Applied()
		servers := raft.EncodeConfiguration(raft.Configuration{Servers: []raft.Server{
			{Suffrage: raft.Voter, ID: "1.1", Address: "1.1"}, {Suffrage: raft.Nonvoter, ID: "3.2", Address: "3.2"},
		}})
		require.Nil(t, state.Apply(&raft.Log{Index: index + 1, Term: term, Type: raft.LogConfiguration, Data: servers}))
		require.NoError(t, state.Close())
		groups, err := Recover(f.ctx, recoverOf(disk, "3"))
		require.NoError(t, err)
		for _, g := range groups {
			require.Equal(t, g.Group == 2, g.NoVoter)
		}
	})
}

func TestOnlyANodeWithAllGroupsIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		f.o.Replicas = 1
		f.start("1")
		f.write("a", "b")
		f.start("2")
		f.eventually(func() error {
			if f.nodes["2"].Health().Groups < 2 || f.nodes["1"].Health().Groups > 2 {
				return errNotHosted
			}
			return nil
		})
		f.crash("2")
		_, err := Recover(f.ctx, recoverOf(f.disks["2"], "2"))
		require.ErrorContains(t, err, "no replica of group")
		require.False(t, existsIn(f.disks["2"], "node/UNFINISHED"))
		_, err = Recover(f.ctx, recoverOf(f.disks["2"], "1"))
		require.ErrorContains(t, err, "is not the directory of node 1")
		_, err = Recover(f.ctx, recoverOf(vfs.NewMem(), "2"))
		require.ErrorContains(t, err, "is not the directory of node 2")
		o := recoverOf(f.disks["1"], "1")
		_, err = Recover(f.ctx, o)
		require.Error(t, err, "the node runs")
	})
}
