package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// RestoreOptions say what RestoreBackup makes.
type RestoreOptions struct {
	// Backup is the ID of the backup; "": the newest.
	Backup string
	ID     kv.NodeID
	Dir    string
	FS     vfs.FS // default: the operating system's
	Zone   string
	// Addr is the address of the node, until it says that it has another one.
	Addr string
	// Replicas is the number of replicas of each group; 0: as in the backup.
	Replicas int
	Logger   *slog.Logger // required
}

// RestoreBackup makes the directory of a new cluster's first node from a backup. The directory must be empty, not
// exist, or be what an interrupted call left. Until all is complete, a node does not start in it.
func RestoreBackup(ctx context.Context, s backup.Storage, o RestoreOptions) (b *Backup, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if !o.ID.Valid() || o.Dir == "" {
		return nil, errors.New("the new node needs a directory, and an ID of 1 to 64 letters, digits, - and _")
	}
	if b, err = findBackup(ctx, s, o.Backup); err != nil {
		return nil, err
	}
	lock, err := lockDir(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := beginRestore(o.FS, o.Dir); err != nil {
		return nil, err
	}
	r := restoring{RestoreOptions: o, storage: s, backup: b}
	r.identity = r.newIdentity()
	for _, g := range b.Groups {
		if err := r.group(ctx, g); err != nil {
			return nil, fmt.Errorf("restore group %d: %w", g.Group, err)
		}
		o.Logger.Info("a group was restored", "group", g.Group, "index", g.Index, "bytes", g.Bytes)
	}
	if err := r.identity.write(o.FS, o.Dir); err != nil {
		return nil, err
	}
	return b, removeUnfinished(o.FS, o.Dir)
}

// findBackup returns a complete backup.
func findBackup(ctx context.Context, s backup.Storage, id string) (*Backup, error) {
	if id != "" {
		b, err := readBackup(ctx, s, id)
		if err != nil {
			return nil, err
		}
		return b, b.checkStored(ctx, s)
	}
	all, err := ListBackups(ctx, s)
	if err != nil { // the newest may be the one that cannot be read
		return nil, fmt.Errorf("%w; give the ID of the backup to restore", err)
	}
	if len(all) == 0 {
		return nil, errors.New("the repository has no complete backup of a cluster")
	}
	b := all[len(all)-1]
	return b, b.checkStored(ctx, s)
}

func lockDir(fsys vfs.FS, dir string) (io.Closer, error) {
	if err := vfs.MkdirAllSynced(fsys, dir); err != nil {
		return nil, err
	}
	lock, err := fsys.Lock(filepath.Join(dir, lockName), false)
	if err != nil {
		return nil, fmt.Errorf("the directory of the node: %w", err)
	}
	return lock, nil
}

const lockName = "LOCK"

// unfinishedFile is there while a directory is being made or changed by a program that is not a node. Its content is
// a sentence for people.
func unfinishedFile(dir string) string { return filepath.Join(dir, "UNFINISHED") }

// refuseUnfinished returns an error if a restore or a recovery was interrupted.
func refuseUnfinished(fsys vfs.FS, dir string) error {
	_, err := fsys.Lstat(unfinishedFile(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("a restore or a recovery of %s was interrupted, and the directory is not complete: "+
		"run the same command again, or delete the directory", dir)
}

func writeUnfinished(fsys vfs.FS, dir, text string) error {
	if err := files.Write(fsys, unfinishedFile(dir), []byte(text)); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

func removeUnfinished(fsys vfs.FS, dir string) error {
	if err := fsys.SyncDir(dir); err != nil {
		return err
	}
	if err := fsys.Remove(unfinishedFile(dir)); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// restoreText is the content of UNFINISHED during a restore. By it the next call knows that all else in the directory
// is its own.
const restoreText = "This directory is being restored from a backup.\n"

// beginRestore refuses a directory that is in use, and marks it. All that an interrupted restore left is removed.
func beginRestore(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == lockName })
	if len(names) > 0 && !hasMark(fsys, dir, restoreText) {
		return fmt.Errorf("%s has %s; choose a directory that is empty or does not exist", dir, names[0])
	}
	if err := writeUnfinished(fsys, dir, restoreText); err != nil {
		return err
	}
	for _, name := range names {
		if name == filepath.Base(unfinishedFile(dir)) {
			continue
		}
		if err := files.RemoveAll(fsys, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// hasMark reports whether UNFINISHED is there with a text.
func hasMark(fsys vfs.FS, dir, want string) bool {
	text, err := files.Read(fsys, unfinishedFile(dir), int64(len(want)))
	return err == nil && string(text) == want
}

// restoring is a call of RestoreBackup.
type restoring struct {
	RestoreOptions
	storage  backup.Storage
	backup   *Backup
	identity *identity
}

// newIdentity makes a cluster of one node, with a name of its own. The node gets an incarnation that no node of the old
// cluster had.
func (r *restoring) newIdentity() *identity {
	old := r.backup.Map
	member := Member{ID: r.ID, Addr: r.Addr, Zone: r.Zone, Incarnation: 1}
	for _, m := range old.Nodes {
		member.Incarnation = max(member.Incarnation, m.Incarnation+1)
	}
	m := &Map{
		Version: old.Version + 1, Cluster: randomID(), Groups: old.Groups, Replicas: cmp.Or(r.Replicas, old.Replicas),
		Nodes: []Member{member},
	}
	id := &identity{Cluster: m.Cluster, ID: r.ID, Incarnation: member.Incarnation, Map: m}
	for group := range kv.GroupID(m.Groups) {
		id.Hosted = append(id.Hosted, group)
	}
	return id
}

// randomID returns 16 hexadecimal digits.
func randomID() string {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails
	return hex.EncodeToString(name[:])
}

// group restores the state of a group, and makes it the beginning of a new history. Raft has no log then, and a state
// that ends with entry 1: other replicas get that state, since entry 1 is in no log.
func (r *restoring) group(ctx context.Context, g GroupBackup) (err error) {
	dir := groupDir(r.Dir, g.Group)
	if err := vfs.MkdirAllSynced(r.FS, dir); err != nil {
		return err
	}
	_, err = backup.Open(r.storage).Restore(ctx, g.Backup, machine.RestoreDir(dir), &backup.RestoreOptions{FS: r.FS})
	if err != nil {
		return err
	}
	if err := machine.Adopt(r.FS, dir); err != nil {
		return err
	}
	state, err := machine.Open(machine.Options{Dir: dir, FS: r.FS, Logger: r.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	if err := checkRestored(state, g); err != nil {
		return err
	}
	return state.Rebase(1, 1, aloneConfiguration(r.identity), metaOf(g.Group, r.identity.Map))
}

// aloneConfiguration has one voter. Its address is only a name: raft asks the map for addresses, and
// refuses two servers with the same one.
func aloneConfiguration(id *identity) raft.Configuration {
	name := serverName(id.ID, id.Incarnation)
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(name), Address: raft.ServerAddress(name)},
	}}
}

// metaOf is what the group itself stores: group 0 has the map.
func metaOf(group kv.GroupID, m *Map) map[string][]byte {
	if group != 0 {
		return nil
	}
	return map[string][]byte{mapName: m.encode()}
}

// checkRestored compares a state with its description: how far it is, and that its keys belong to the group.
func checkRestored(state *machine.Machine, g GroupBackup) error {
	if index, term := state.Applied(); index != g.Index || term != g.Term {
		return fmt.Errorf("its state ends with entry %d of term %d, and entry %d of term %d is expected", index, term, g.Index, g.Term)
	}
	return state.WithDB(func(d *db.DB) (err error) {
		it, err := d.NewIterator(&db.IterOptions{
			LowerBound: []byte{layout.KeyPrefix}, UpperBound: []byte{layout.KeyPrefix + 1}, KeysOnly: true,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, it.Close()) }()
		for _, move := range []func() bool{it.First, it.Last} {
			if !move() {
				return it.Err()
			}
			slotNum, _, err := layout.ParseKey(it.Key())
			if err != nil {
				return err
			}
			if slotNum < g.First || slotNum > g.Last {
				return fmt.Errorf("it has a key of slot %d, and the group has the slots %d to %d", slotNum, g.First, g.Last)
			}
		}
		return nil
	})
}
