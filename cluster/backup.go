package cluster

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/vfs"
)

// Backup describes a backup of a cluster.
type Backup struct {
	// ID is its name in the repository. IDs sort by time.
	ID string
	// Cluster is the ID of the cluster. A restored cluster has another one.
	Cluster string
	// Time is when it began, by the clock of the node that was asked for it.
	Time time.Time
	// Groups are its parts, by the numbers of the groups. Each is the state after an entry of the group's log.
	Groups []GroupBackup
}

// GroupBackup is the part of a backup that one group has.
type GroupBackup struct {
	// FirstSlot and LastSlot are those of the group.
	FirstSlot, LastSlot uint16
	// Index is the index of the last entry of the group's log that it contains.
	Index uint64
	// Bytes is its size, BytesStored what the repository did not have yet.
	Bytes, BytesStored int64
	// Node is the ID of the node that stored it.
	Node string
}

// Bytes returns the size of the backup, and how much of it the repository did not have yet.
func (b *Backup) Bytes() (all, stored int64) {
	for _, g := range b.Groups {
		all += g.Bytes
		stored += g.BytesStored
	}
	return all, stored
}

func describe(b *node.Backup) Backup {
	d := Backup{ID: b.ID, Cluster: b.Cluster, Time: b.Time}
	for _, g := range b.Groups {
		d.Groups = append(d.Groups, GroupBackup{
			FirstSlot: g.First, LastSlot: g.Last, Index: g.Index, Bytes: g.Bytes, BytesStored: g.Stored, Node: string(g.Node),
		})
	}
	return d
}

func describeAll(all []*node.Backup) (described []Backup) {
	for _, b := range all {
		described = append(described, describe(b))
	}
	return described
}

// Backup stores a backup of the whole cluster in Options.Backups, while all nodes work. It has all writes that were
// acknowledged before the call. Of each group it has the state at one moment, so a transaction is in it as a whole
// or not at all; the moments of different groups differ. Tables that the repository has are not stored again.
//
// The leaders of the groups do the work, and this node writes the description of the backup when all are done: a
// backup is in the repository completely, or Backups does not list it. A node makes one backup at a time.
func (n *Node) Backup(ctx context.Context) (Backup, error) {
	b, err := n.node.Backup(ctx)
	if err != nil {
		return Backup{}, err
	}
	return describe(b), nil
}

// Backups returns the backups of clusters in a repository, the oldest first. If the descriptions of some are
// damaged, it returns the others and an error.
func Backups(ctx context.Context, repository backup.Storage) ([]Backup, error) {
	all, err := node.ListBackups(ctx, repository)
	return describeAll(all), err
}

// BackupReport is what VerifyBackups found.
type BackupReport struct {
	// Backups, Objects and Bytes count what was read.
	Backups, Objects int
	Bytes            int64
	// Faults are sentences about what is damaged or missing, and which backups need it.
	Faults []string
}

// VerifyBackups reads every byte that the backups in a repository need, and compares checksums. The error is about
// reading the repository itself.
func VerifyBackups(ctx context.Context, repository backup.Storage) (BackupReport, error) {
	r, err := node.VerifyBackups(ctx, repository)
	return BackupReport{r.Backups, r.Objects, r.Bytes, r.Faults}, err
}

// PruneReport is what PruneBackups did, or would do.
type PruneReport struct {
	Kept, Removed []Backup // the oldest first
	// Objects and Bytes count the objects that were deleted; Waiting ones are deleted by a later call, because a backup
	// was being made. With Policy.DryRun they are 0.
	Objects, Waiting int
	Bytes            int64
}

// PruneBackups removes the backups of clusters that the policy does not keep, and the objects that only they need. The
// policy counts the backups of each cluster separately. Backups may be made meanwhile. What an interrupted backup has
// stored is removed after backup.AbandonedAfter.
func PruneBackups(ctx context.Context, repository backup.Storage, p backup.Policy) (PruneReport, error) {
	r, err := node.PruneBackups(ctx, repository, p)
	return PruneReport{describeAll(r.Kept), describeAll(r.Removed), r.Objects, r.Waiting, r.Bytes}, err
}

// RestoreOptions configure Restore. ID and Dir are required.
type RestoreOptions struct {
	// Backup is the ID of the backup. Default: the newest one.
	Backup string

	// ID and Dir are those of the first node of the new cluster. Dir must be empty or not exist.
	ID, Dir string

	// FS is the file system of Dir. Default: the operating system's.
	FS vfs.FS

	// Zone and Advertise are those with which the node will be started. If it is started with others, it says so to
	// the other nodes.
	Zone, Advertise string

	// Replicas is the number of replicas of each group, if there are as many nodes. Default: as in the backup.
	Replicas int

	// Logger receives messages. Default: nothing is logged.
	Logger *slog.Logger
}

// Restore makes the directory of the first node of a new cluster from a backup. Start then starts it, and further nodes
// join it. It has an ID of its own, so its nodes and those of the old cluster do not talk to each other.
//
// Until Restore has returned nil, Start refuses the directory, also after a crash; another call of Restore starts over.
func Restore(ctx context.Context, repository backup.Storage, o RestoreOptions) (Backup, error) {
	if o.Replicas < 0 || o.Replicas > 9 {
		return Backup{}, errors.New("cluster: RestoreOptions.Replicas must be from 1 to 9, or 0 for that of the backup")
	}
	no := node.RestoreOptions{
		Backup: o.Backup, ID: kv.NodeID(o.ID), Dir: o.Dir, FS: o.FS, Zone: o.Zone, Addr: o.Advertise, Replicas: o.Replicas,
		Logger: o.Logger,
	}
	if no.Addr == "" {
		no.Addr = "127.0.0.1:7001"
	}
	if no.Logger == nil {
		no.Logger = slog.New(slog.DiscardHandler)
	}
	b, err := node.RestoreBackup(ctx, repository, no)
	if err != nil {
		return Backup{}, err
	}
	return describe(b), nil
}
