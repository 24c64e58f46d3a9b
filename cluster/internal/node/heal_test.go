package node

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// flipping is a file system that returns a wrong byte in each read of tables below a directory, until that
// directory is renamed.
type flipping struct {
	vfs.FS
	dir   string
	flips atomic.Bool
}

func (f *flipping) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	if err != nil || !strings.Contains(name, f.dir+"/") {
		return file, err
	}
	return &flippingFile{file, f}, nil
}

func (f *flipping) Rename(from, to string) error {
	if strings.HasSuffix(from, f.dir) {
		f.flips.Store(false)
	}
	return f.FS.Rename(from, to)
}

type flippingFile struct {
	vfs.File
	fs *flipping
}

func (f *flippingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if n > 0 && f.fs.flips.Load() {
		p[n/2] ^= 0x10
	}
	return n, err
}

// startFlipping starts three nodes, the third of which has such a file system.
func (f *fleet) startFlipping(dir string) *flipping {
	disk := &flipping{FS: vfs.NewMem(), dir: dir}
	f.disks["3"] = disk
	f.startThree()
	return disk
}

// flipFlushed lets each read of a table of group 0 that a flush makes return a wrong byte. It flips first: each round
// of gossip reads the map, and a block that was read before the flips would stay in the cache. So the flush may fail,
// when the damage was found already.
func flipFlushed(t *testing.T, n *Node, disk *flipping) {
	h, err := n.hostedGroup(0)
	require.NoError(t, err)
	disk.flips.Store(true)
	_ = h.state.WithDB(func(d *db.DB) error { return d.Flush() })
}

// flush writes the memtables of a node's group to tables.
func flush(t *testing.T, n *Node, group kv.GroupID) {
	h, err := n.hostedGroup(group)
	require.NoError(t, err)
	require.NoError(t, h.state.WithDB(func(d *db.DB) error { return d.Flush() }))
}

func TestADamagedStateIsReplacedByThatOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		disk := f.startFlipping("group-0000")
		written := f.writeSome("damaged", 50)
		f.hasAll(written)
		before := f.nodes["3"].places[0].get()
		flipFlushed(t, f.nodes["3"], disk)
		f.eventually(func() error {
			got, err := read(f.ctx, f.nodes["3"], "damaged-7", true)
			if err == nil && got != "damaged-7!" {
				require.Equal(t, "damaged-7!", got, "wrong data was returned")
			}
			if now := f.nodes["3"].places[0].get(); now == nil || now == before {
				return fmt.Errorf("the replica was not replaced; a read returned %w", err)
			}
			return nil
		})
		require.True(t, f.nodes["3"].exists("node/group-0000.damaged"))
		f.settled(3)
		for key, value := range f.writeSome("healed", 10) {
			written[key] = value
		}
		f.hasAll(written)
		require.EqualValues(t, 1, f.nodes["3"].self().Incarnation)
	})
}

// The map of the cluster is in the state of group 0. Its damage was an error of each node that wanted to join.
func TestDamageThatAReadOfTheMapFindsIsHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.o.Scrub.BytesPerSecond = -1
		disk := f.startFlipping("group-0000")
		before := f.nodes["3"].places[0].get()
		flipFlushed(t, f.nodes["3"], disk)
		f.eventually(func() error {
			if now := f.nodes["3"].places[0].get(); now == nil || now == before {
				return errors.New("the replica was not replaced")
			}
			return nil
		})
		f.settled(3)
		f.hasAll(f.writeSome("healed", 3))
	})
}

func TestANodeWithADamagedLogJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		disk := f.startFlipping("node/log")
		written := f.writeSome("log", 20)
		n := f.nodes["3"]
		require.NoError(t, n.logs.database().Flush())
		disk.flips.Store(true)
		_ = n.logs.database().Compact(f.ctx, nil, nil) // reads all, and fails the store
		f.joinedAgain(n)
		f.settled(3)
		for key, value := range f.writeSome("again", 10) {
			written[key] = value
		}
		f.hasAll(written)
		require.True(t, n.exists("node/log.damaged"))
	})
}

// A node whose log is lost has forgotten what it voted and acknowledged, so it may not vote as what it was.
func TestANodeThatLostItsLogJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.startThree()
		written := f.writeSome("log", 20)
		f.crash("3")
		require.NoError(t, files.RemoveAll(f.disks["3"], "node/log"))
		n := f.start("3")
		f.joinedAgain(n)
		f.settled(3)
		f.hasAll(written)
	})
}

func TestTheOnlyNodeDoesNotStartWithoutItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		f.start("1")
		f.settled(1)
		f.writeSome("log", 5)
		f.crash("1")
		require.NoError(t, files.RemoveAll(f.disks["1"], "node/log"))
		_, err := Start(f.ctx, f.options("1"))
		require.ErrorIs(t, err, db.ErrCorruption)
		require.ErrorContains(t, err, "restore a backup")
	})
}

// Raft panics if it cannot read an entry that is committed, and the panic of one group would end all.
func TestAFunctionThatWouldPanicIsEndedAndOthersAreNot(t *testing.T) {
	run := func(f func()) (returned bool) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			f()
			returned = true
		}()
		<-done
		return returned
	}
	const name = "github.com/sievedb/sievedb/cluster/internal/node.(*raftLoop).processLogs"
	var l raftLoop
	require.False(t, run(func() { l.processLogs(name) }))
	require.True(t, run(func() { l.processLogs(name + "OfAnother") }))
	require.True(t, run(func() { endInstead(name) }))
	require.Equal(t, "github.com/hashicorp/raft", reflect.TypeFor[raft.Raft]().PkgPath(), "the names in raftStore are of this package")
}

type raftLoop struct{}

func (*raftLoop) processLogs(name string) { endInstead(name) }

// The log may fail again while a replica is being opened. NewRaft panics, on the goroutine of the healer. That ended,
// and held the replica's lock for ever.
func TestALogThatFailsAtTheStartOfRaftIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1)
		n := f.start("1")
		f.settled(1)
		n.stop()
		n.work.Wait()
		require.NoError(t, n.places[0].close(kv.ErrClosed))
		n.logs.get().Damaged(db.ErrCorruption)
		err := errors.New("the goroutine has ended")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = n.openReplica(0)
		}()
		<-done
		require.ErrorContains(t, err, "raft could not start: failed to save current term")
	})
}
