package cluster

import (
	"context"
	"log/slog"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/node"
	"github.com/sievedb/sievedb/vfs"
)

// RecoverOptions configure Recover. ID and Dir are required.
type RecoverOptions struct {
	ID, Dir string
	// FS is the file system of Dir. Default: the operating system's.
	FS vfs.FS
	// Advertise is the address of the node, if it will have another one than before.
	Advertise string
	// Logger receives messages. Default: nothing is logged.
	Logger *slog.Logger
}

// RecoveredGroup is what Recover found of a group.
type RecoveredGroup struct {
	Group int
	// Applied is the index of the last entry that the replica was known to have applied. FromLog entries that followed
	// it in the log were applied as well; they may never have been acknowledged.
	Applied uint64
	FromLog int
	// Gap reports that the log did not continue the state, and was not used.
	Gap bool
	// NoVoter reports that the replica was no voter of the group, which may have acknowledged much that it does not
	// have.
	NoVoter bool
}

// Recover makes a node the only one of a new cluster, with the data of its replicas. It is for the loss of a majority
// when there is no newer backup. Writes that the lost nodes had acknowledged and this one had not received are lost,
// and nothing shows which ones these are. The node must have replicas of all groups, and must not run. The new cluster
// refuses the other nodes of the old one; they need empty directories to join.
//
// Until Recover has returned nil, Start refuses the directory, also after a crash; call Recover again.
func Recover(ctx context.Context, o RecoverOptions) (groups []RecoveredGroup, err error) {
	no := node.RecoverOptions{ID: kv.NodeID(o.ID), Dir: o.Dir, FS: o.FS, Addr: o.Advertise, Logger: o.Logger}
	if no.Logger == nil {
		no.Logger = slog.New(slog.DiscardHandler)
	}
	found, err := node.Recover(ctx, no)
	for _, g := range found {
		groups = append(groups, RecoveredGroup{int(g.Group), g.Applied, g.FromLog, g.Gap, g.NoVoter})
	}
	return groups, err
}
