package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/cluster/internal/wire"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/internal/disk/wrap"
	"github.com/sievedb/sievedb/vfs"
)

func repositoryIn(t *testing.T, fsys vfs.FS) backup.Storage {
	s, err := backup.NewDir(fsys, "repository")
	require.NoError(t, err)
	return s
}

// pairs writes numbers, each as two keys of one slot in one transaction, until it is stopped. It remembers which
// numbers were acknowledged.
type pairs struct {
	mu    sync.Mutex
	acked [pairCount]int
	stop  context.CancelFunc
	done  sync.WaitGroup
}

const pairCount = 8

func pairKeys(i int) (string, string) { return fmt.Sprintf("{%d}a", i), fmt.Sprintf("{%d}b", i) }

func writePairs(f *fleet) *pairs {
	p := &pairs{}
	nodes := slices.Collect(maps.Values(f.nodes))
	ctx, cancel := context.WithCancel(f.ctx)
	p.stop = cancel
	for i := range pairCount {
		p.done.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				time.Sleep(time.Millisecond)
				for _, node := range nodes {
					if writePair(ctx, node, i, n) == nil {
						p.mu.Lock()
						p.acked[i] = n
						p.mu.Unlock()
						break
					}
				}
			}
		})
	}
	return p
}

func writePair(ctx context.Context, n *Node, i, number int) error {
	a, b := pairKeys(i)
	g, ok := n.Group(slot.Of([]byte(a)))
	if !ok {
		return errNotHosted
	}
	return put(ctx, g, strconv.Itoa(number), a, b)
}

func (p *pairs) snapshot() [pairCount]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked
}

// restoreFleet restores a backup to a new node, in a fleet of its own that begins with it.
func restoreFleet(t *testing.T, s backup.Storage, id kv.NodeID) (*fleet, *Backup) {
	f := newFleet(t, 1) // the backup has another number
	f.disks[id] = vfs.NewMem()
	b, err := RestoreBackup(f.ctx, s, restoreTo(f.disks[id], id))
	require.NoError(t, err)
	f.o.Backups = s
	f.start(id)
	return f, b
}

func restoreTo(fsys vfs.FS, id kv.NodeID) RestoreOptions {
	return RestoreOptions{ID: id, Dir: "node", FS: fsys, Addr: "127.0.0.1:1", Logger: slog.New(slog.DiscardHandler)}
}

func (f *fleet) number(key string) int {
	f.t.Helper()
	var number int
	f.eventually(func() error {
		for _, n := range f.nodes {
			text, err := read(f.ctx, n, key, false)
			if err == nil {
				number, err = strconv.Atoi(text)
				return err
			}
		}
		return errors.New("no leader answers")
	})
	return number
}

func TestABackupOfAClusterThatIsWrittenToIsRestoredAsANewCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := repositoryIn(t, vfs.NewMem())
		f := newFleet(t, 4)
		f.o.Backups = s
		f.startThree()
		before := f.writeSome("before", 20)
		writes := writePairs(f)
		f.eventually(func() error {
			for i, n := range writes.snapshot() {
				if n < 20 {
					return fmt.Errorf("pair %d was written %d times", i, n)
				}
			}
			return nil
		})
		low := writes.snapshot()
		b, err := f.nodes["2"].Backup(f.ctx)
		require.NoError(t, err)
		high := writes.snapshot()
		time.Sleep(time.Millisecond) // the newest one is that with the latest time
		second, err := f.nodes["1"].Backup(f.ctx)
		require.NoError(t, err)
		writes.stop()
		writes.done.Wait()
		require.Less(t, b.ID, second.ID)

		restored, got := restoreFleet(t, s, "1")
		require.Equal(t, second.ID, got.ID, "the newest one is the default")
		restored.hasAll(before)

		disk := vfs.NewMem()
		o := restoreTo(disk, "9")
		o.Backup = b.ID
		_, err = RestoreBackup(f.ctx, s, o)
		require.NoError(t, err)
		first := newFleet(t, 1)
		first.disks["9"] = disk
		first.start("9")
		first.hasAll(before)
		for i := range pairCount {
			a, z := pairKeys(i)
			number := first.number(a)
			require.Equal(t, number, first.number(z), "a transaction was divided")
			require.GreaterOrEqual(t, number, low[i], "a write that was acknowledged before the backup is missing")
			require.LessOrEqual(t, number, high[i]+1, "a value was never written, or after the backup")
		}

		// The new cluster is one: others join it, get all data by a state, and it can be backed up itself.
		old := f.nodes["1"].atlas.chart().Cluster
		require.NotEqual(t, old, restored.nodes["1"].atlas.chart().Cluster)
		restored.start("2")
		restored.start("3")
		restored.settled(3)
		restored.hasAll(before)
		after := restored.writeSome("after", 10)
		restored.crash("1")
		restored.start("1")
		restored.settled(3)
		restored.hasAll(before)
		restored.hasAll(after)
		third, err := restored.nodes["3"].Backup(restored.ctx)
		require.NoError(t, err)
		require.NotEqual(t, old, third.Cluster)
	})
}

func TestARestoredNodeAndTheOldClusterDoNotTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := repositoryIn(t, vfs.NewMem())
		f := newFleet(t, 1)
		f.o.Backups = s
		f.startThree()
		f.write("a", "old")
		_, err := f.nodes["1"].Backup(f.ctx)
		require.NoError(t, err)

		// The restored node has the ID and the address of one that the others still know.
		addr := f.nodes["3"].Addr()
		f.crash("3")
		restored := newFleet(t, 1)
		restored.o.Listen = addr
		restored.disks["3"] = vfs.NewMem()
		_, err = RestoreBackup(f.ctx, s, restoreTo(restored.disks["3"], "3"))
		require.NoError(t, err)
		restored.start("3")
		restored.write("a", "new")
		f.write("b", "old")
		for range 20 { // elections and gossip of both
			restored.write("c", "new")
			time.Sleep(20 * time.Millisecond)
		}
		var theirs gossip
		n := restored.nodes["3"]
		require.ErrorIs(t, n.call(f.ctx, wire.At(f.nodes["1"].Addr()), "gossip", n.news(), &theirs), wire.ErrOtherCluster)
		require.ErrorIs(t, f.nodes["1"].call(f.ctx, wire.At(addr), "gossip", f.nodes["1"].news(), &theirs), wire.ErrOtherCluster)
		_, err = f.nodes["1"].wire.Group(0).Dial(f.ctx, "3", addr)
		require.ErrorIs(t, err, wire.ErrOtherCluster)
		require.Len(t, n.atlas.chart().Nodes, 1)
		restored.has("a", "new")
		f.has("a", "old")
		f.eventually(func() error {
			got, err := read(f.ctx, f.nodes["1"], "c", true)
			require.Empty(t, got)
			return err
		})
	})
}

// failing returns a file system that counts how often names change. From limit on that fails, unless limit is 0.
func failing(fsys vfs.FS, count *atomic.Int64, limit int64) vfs.FS {
	return wrap.NewFaulty(fsys, func(op wrap.Op) *wrap.Fault {
		switch op.Kind {
		case wrap.OpCreate, wrap.OpRename, wrap.OpRemove, wrap.OpSyncDir:
			if n := count.Add(1); limit > 0 && n >= limit {
				return &wrap.Fault{}
			}
		}
		return nil
	})
}

func TestAnInterruptedRestoreDoesNotStartAndCanBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := repositoryIn(t, vfs.NewMem())
		f := newFleet(t, 4)
		f.o.Backups = s
		f.start("1")
		written := f.writeSome("kept", 10)
		_, err := f.nodes["1"].Backup(f.ctx)
		require.NoError(t, err)

		var count atomic.Int64
		complete := vfs.NewMem()
		_, err = RestoreBackup(f.ctx, s, restoreTo(failing(complete, &count, 0), "1"))
		require.NoError(t, err)
		require.Greater(t, count.Load(), int64(60))
		start := func(disk vfs.FS) (*Node, error) {
			o := f.o
			o.ID, o.FS = "1", disk
			o.Space.Free = func(string) (int64, error) { return 1 << 40, nil }
			return Start(f.ctx, o)
		}
		for limit := int64(1); limit <= count.Load(); limit += 13 {
			disk := vfs.NewMem()
			_, err := RestoreBackup(f.ctx, s, restoreTo(failing(disk, new(atomic.Int64), limit), "1"))
			require.Error(t, err)
			disk = disk.Crash() // and the power is cut
			if _, statErr := disk.Lstat("node/node.json"); statErr == nil || existsIn(disk, "node/group-0000") {
				_, err = start(disk)
				require.ErrorContains(t, err, "interrupted", "stopped before operation %d", limit)
			}
			_, err = RestoreBackup(f.ctx, s, restoreTo(disk, "1"))
			require.NoError(t, err)
			if limit%3 != 0 {
				continue
			}
			n, err := start(disk)
			require.NoError(t, err)
			for key, value := range written {
				require.NoError(t, n.Ready(f.ctx))
				got, err := read(f.ctx, n, key, false)
				require.NoError(t, err)
				require.Equal(t, value, got)
			}
			require.NoError(t, n.Close())
		}
		_, err = RestoreBackup(f.ctx, s, restoreTo(complete, "1"))
		require.ErrorContains(t, err, "choose a directory that is empty", "a complete node was overwritten")
	})
}

func existsIn(fsys vfs.FS, name string) bool {
	_, err := fsys.Lstat(name)
	return err == nil
}

func TestABackupIsCompleteOrNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		f := newFleet(t, 4)
		f.o.Backups = repositoryIn(t, disk)
		n := f.start("1")
		f.writeSome("kept", 4)
		n.o.Backups = repositoryIn(t, failing(disk, new(atomic.Int64), 25))
		_, err := n.Backup(f.ctx)
		require.ErrorIs(t, err, wrap.ErrInjected)
		all, err := ListBackups(f.ctx, f.o.Backups)
		require.NoError(t, err)
		require.Empty(t, all)
		require.Contains(t, n.Info("persistence"), "backup_last_status:err")
		n.o.Backups = f.o.Backups
		b, err := n.Backup(f.ctx)
		require.NoError(t, err)
		require.Contains(t, n.Info("persistence"), "backup_last_id:"+b.ID)
	})
}

func TestNodesWithDifferentRepositoriesAreDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 4)
		for _, id := range []kv.NodeID{"1", "2", "3"} {
			f.o.Backups = repositoryIn(t, vfs.NewMem())
			f.start(id)
		}
		f.settled(3)
		f.leading("2")
		_, err := f.nodes["1"].Backup(f.ctx)
		require.ErrorContains(t, err, "all nodes need the same repository")
		f.nodes["1"].o.Backups = nil
		_, err = f.nodes["1"].Backup(f.ctx)
		require.ErrorIs(t, err, errNoRepository)
	})
}

func TestPruneKeepsWhatIsNeededAndVerifyFindsDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		s := repositoryIn(t, disk)
		f := newFleet(t, 4)
		f.o.Backups = s
		n := f.start("1")
		var last map[string]string
		for i := range 3 {
			last = f.writeSome(fmt.Sprint("round-", i), 5)
			time.Sleep(time.Millisecond) // the newest one is that with the latest time
			_, err := n.Backup(f.ctx)
			require.NoError(t, err)
		}
		_, err := PruneBackups(f.ctx, s, backup.Policy{})
		require.Error(t, err)
		r, err := PruneBackups(f.ctx, s, backup.Policy{KeepLast: 1, DryRun: true})
		require.NoError(t, err)
		require.Len(t, r.Removed, 2)
		r, err = PruneBackups(f.ctx, s, backup.Policy{KeepLast: 1})
		require.NoError(t, err)
		require.Len(t, r.Removed, 2)
		require.Len(t, r.Kept, 1)
		require.Positive(t, r.Objects)
		all, err := ListBackups(f.ctx, s)
		require.NoError(t, err)
		require.Len(t, all, 1)
		v, err := VerifyBackups(f.ctx, s)
		require.NoError(t, err)
		require.Empty(t, v.Faults)
		restored, _ := restoreFleet(t, s, "1")
		restored.hasAll(last)

		require.NoError(t, s.Delete(f.ctx, "backups/"+all[0].Groups[2].Backup))
		v, err = VerifyBackups(f.ctx, s)
		require.NoError(t, err)
		require.Contains(t, strings.Join(v.Faults, "\n"), "of group 2")
		_, err = RestoreBackup(f.ctx, s, restoreTo(vfs.NewMem(), "1"))
		require.ErrorContains(t, err, "of group 2")
	})
}

func TestADescriptionOfABackupSurvivesAndIsChecked(t *testing.T) {
	m := &Map{Version: 3, Cluster: "c", Groups: 1, Replicas: 3, Nodes: []Member{{ID: "1", Addr: "h:1", Incarnation: 1}}}
	b := &Backup{
		ID: newBackupID(time.Now()), Cluster: "c", Time: time.Now().UTC(), Map: m,
		Groups: []GroupBackup{{Last: kv.SlotCount - 1, Backup: "x", Index: 7, Term: 2, Bytes: 10, Stored: 5, Node: "1"}},
	}
	text, err := b.encode()
	require.NoError(t, err)
	got, err := parseBackup(text)
	require.NoError(t, err)
	require.Equal(t, b, got)
	for i := range text {
		damaged := slices.Clone(text)
		damaged[i] ^= 1
		_, err := parseBackup(damaged)
		require.ErrorIs(t, err, errBackupText, "byte %d", i)
	}
}

func FuzzParseBackup(f *testing.F) {
	b := &Backup{ID: newBackupID(time.Unix(1e9, 0)), Cluster: "c", Map: &Map{Cluster: "c", Groups: 1, Replicas: 1}, Groups: []GroupBackup{
		{Last: kv.SlotCount - 1, Backup: "x"},
	}}
	text, err := b.encode()
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("{}\nsha256 00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBackup(text)
		if err != nil {
			return
		}
		again, err := b.encode()
		require.NoError(t, err)
		got, err := parseBackup(again)
		require.NoError(t, err)
		require.Equal(t, b, got)
	})
}

func TestARestoredStateIsThatOfItsDescription(t *testing.T) {
	state, err := machine.Open(machine.Options{Dir: "group", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
	require.NoError(t, state.WithDB(func(d *db.DB) error {
		return d.Put(layout.AppendKey(nil, 9, []byte("k")), []byte("v"), nil)
	}))
	require.NoError(t, checkRestored(state, GroupBackup{First: 9, Last: 9}))
	require.ErrorContains(t, checkRestored(state, GroupBackup{First: 9, Last: 9, Index: 7}), "and entry 7 of term 0 is expected")
	require.ErrorContains(t, checkRestored(state, GroupBackup{First: 10, Last: 19}), "it has a key of slot 9")
}
