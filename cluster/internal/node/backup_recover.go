package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/sievedb/sievedb/cluster/internal/files"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/logstore"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/vfs"
)

// RecoverOptions say what Recover changes.
type RecoverOptions struct {
	ID  kv.NodeID
	Dir string
	FS  vfs.FS // default: the operating system's
	// Addr is the address of the node; "": that of the map.
	Addr   string
	Logger *slog.Logger // required
}

// RecoveredGroup is what Recover found of a group.
type RecoveredGroup struct {
	Group kv.GroupID
	// Applied is the index up to which the state had been applied. FromLog counts entries that followed it in the log.
	// They were applied too, though they may never have been acknowledged.
	Applied uint64
	FromLog int
	// Gap reports that the log did not continue the state, so that nothing of it was applied.
	Gap bool
	// NoVoter reports that the replica was no voter, as far as it knew: it was still to be made or to be dropped, and
	// the voters may have acknowledged much that it does not have.
	NoVoter bool
}

const recoverText = "This directory is being made the only node of a cluster by sieved recover.\n"

// Recover makes a node that has lost the majority of its groups the only node of a new cluster, with all that its
// replicas have. What other nodes had acknowledged and this one had not received is lost. The node must not run. After
// an interruption the node does not start until Recover is called again.
func Recover(ctx context.Context, o RecoverOptions) (groups []RecoveredGroup, err error) {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	old, err := readIdentity(o.FS, o.Dir) // before the directory is created for its lock
	if err != nil {
		return nil, err
	}
	if old == nil || old.ID != o.ID {
		return nil, fmt.Errorf("%s is not the directory of node %s", o.Dir, o.ID)
	}
	lock, err := lockDir(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if old, err = readIdentity(o.FS, o.Dir); err != nil {
		return nil, err
	}
	for group := range kv.GroupID(old.Map.Groups) {
		if !slices.Contains(old.Hosted, group) {
			return nil, fmt.Errorf("this node has no replica of group %d: recover a node that has replicas of all groups, or restore a backup", group)
		}
	}
	if hasMark(o.FS, o.Dir, restoreText) {
		return nil, refuseUnfinished(o.FS, o.Dir)
	}
	if err := writeUnfinished(o.FS, o.Dir, recoverText); err != nil {
		return nil, err
	}
	r := recovering{RecoverOptions: o, identity: old.alone(o.Addr)}
	if groups, err = r.run(ctx, old.OldLog); err != nil {
		return nil, err
	}
	if err := r.identity.write(o.FS, o.Dir); err != nil {
		return nil, err
	}
	return groups, removeUnfinished(o.FS, o.Dir)
}

// alone returns the identity of the node as the only one of a new cluster, as another server of raft.
func (id *identity) alone(addr string) *identity {
	member, _ := id.Map.Find(id.ID)
	member.ID, member.Leaving, member.Incarnation = id.ID, false, max(id.Incarnation, member.Incarnation)+1
	if addr != "" {
		member.Addr = addr
	}
	m := id.Map.next()
	m.Cluster, m.Nodes = randomID(), []Member{member}
	return &identity{Cluster: m.Cluster, ID: id.ID, Incarnation: member.Incarnation, Hosted: id.Hosted, Map: m}
}

// recovering is a call of Recover.
type recovering struct {
	RecoverOptions
	identity *identity
	logs     *logstore.Store
}

func (r *recovering) run(ctx context.Context, oldLog bool) (groups []RecoveredGroup, err error) {
	if oldLog { // of an earlier incarnation: the states are newer
		if err := files.RemoveAll(r.FS, logDir(r.Dir)); err != nil {
			return nil, err
		}
	}
	r.logs, err = logstore.Open(logDir(r.Dir), logstore.Options{FS: r.FS, Logger: r.Logger})
	if err != nil {
		return nil, fmt.Errorf("%w; if the log is lost, move the directory %s away to recover without it", err, logDir(r.Dir))
	}
	defer func() { err = errors.Join(err, r.logs.Close()) }()
	for _, group := range r.identity.Hosted {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		g, err := r.group(group)
		if err != nil {
			return nil, fmt.Errorf("recover group %d: %w", group, err)
		}
		groups = append(groups, g)
	}
	return groups, r.logs.DB().SyncLog()
}

// group applies the entries in the log of a group after its state, and then begins a new history. The state ends with
// an entry that no log has. So other replicas get the state, and not the old log.
func (r *recovering) group(group kv.GroupID) (g RecoveredGroup, err error) {
	g.Group = group
	if err := finishReplacement(r.FS, r.Dir, group); err != nil {
		return g, err
	}
	dir := groupDir(r.Dir, group)
	if _, err := r.FS.Lstat(dir); err != nil {
		return g, err
	}
	state, err := machine.Open(machine.Options{Dir: dir, FS: r.FS, Logger: r.Logger})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	log := r.logs.Group(group)
	g.Applied, _ = state.Applied()
	if err := applyLog(log, state, &g); err != nil {
		return g, err
	}
	servers, _ := state.Configuration()
	g.NoVoter = !slices.ContainsFunc(servers.Servers, func(s raft.Server) bool {
		return nodeOf(string(s.ID)) == r.ID && s.Suffrage == raft.Voter
	})
	index, term := state.Applied()
	if last, err := log.LastIndex(); err == nil {
		index = max(index, last)
	}
	if err := atLeastTerm(log, term); err != nil {
		return g, err
	}
	if err := state.Rebase(index+1, term, aloneConfiguration(r.identity), metaOf(group, r.identity.Map)); err != nil {
		return g, err
	}
	return g, clearLog(log)
}

// applyLog applies the entries that follow the state.
func applyLog(log *logstore.Group, state *machine.Machine, g *RecoveredGroup) error {
	first, err1 := log.FirstIndex()
	last, err2 := log.LastIndex()
	if err := errors.Join(err1, err2); err != nil || last <= g.Applied {
		return err
	}
	if first > g.Applied+1 {
		g.Gap = true
		return nil
	}
	for index := g.Applied + 1; index <= last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			return err
		}
		if entry.Type != raft.LogCommand && entry.Type != raft.LogConfiguration {
			continue // raft does not show these to a state
		}
		if state.ApplyBatch([]*raft.Log{&entry}); state.Err() != nil {
			return state.Err()
		}
		g.FromLog++
	}
	return nil
}

// atLeastTerm makes the next leader's term larger than that of the state.
func atLeastTerm(log *logstore.Group, term uint64) error {
	key := []byte("CurrentTerm") // raft's name for it
	now, err := log.GetUint64(key)
	if err != nil || now >= term {
		return err
	}
	return log.SetUint64(key, term)
}
