package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sievedb/sievedb/backup"
	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
)

// Errors of backups.
var (
	errNoRepository = errors.New("this node has no repository for backups; start all nodes with --backups and the same directory")
	errBackupRuns   = errors.New("a backup runs already on this node")
)

// backupConcurrency is how many groups are backed up at a time. They are usually on different nodes.
const backupConcurrency = 4

// backupAttempts is how often a group's backup may fail, as its leader may change or end. A group without a leader does
// not count for backupPatience, since an election on a busy machine takes longer than these attempts.
const (
	backupAttempts = 3
	backupPatience = time.Minute
)

// backups is what this node knows about the backups that it makes.
type backups struct {
	mu         sync.Mutex
	running    bool
	began      time.Time
	done, size int // groups
	lastID     string
	lastErr    error
	last       time.Time // when one ended
}

func (b *backups) begin(groups int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		return errBackupRuns
	}
	b.running, b.began, b.done, b.size = true, time.Now(), 0, groups
	return nil
}

func (b *backups) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done++
}

func (b *backups) end(id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running, b.lastID, b.lastErr, b.last = false, id, err, time.Now()
}

// infoBackup adds lines to INFO.
func (n *Node) infoBackup(line func(string, any)) {
	b := &n.backups
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running {
		line("backup_in_progress", 1)
		line("backup_groups_done", fmt.Sprintf("%d/%d", b.done, b.size))
		line("backup_seconds", int64(time.Since(b.began).Seconds()))
	} else {
		line("backup_in_progress", 0)
	}
	switch {
	case b.last.IsZero():
	case b.lastErr != nil:
		line("backup_last_status", "err")
	default:
		line("backup_last_status", "ok")
		line("backup_last_id", b.lastID)
		line("backup_last_age_seconds", int64(time.Since(b.last).Seconds()))
	}
}

// Backup stores a backup of the cluster in the repository: of each group its state at one moment after the call, with
// all writes that were acknowledged before it. The states of different groups are of different moments.
func (n *Node) Backup(ctx context.Context) (b *Backup, err error) {
	if n.o.Backups == nil {
		return nil, errNoRepository
	}
	m := n.atlas.chart()
	if err := n.backups.begin(m.Groups); err != nil {
		return nil, err
	}
	began := time.Now()
	b = &Backup{ID: newBackupID(began), Cluster: m.Cluster, Time: began.UTC(), Map: m, Groups: make([]GroupBackup, m.Groups)}
	defer func() { n.backups.end(b.ID, err) }()
	ctx, cancel := context.WithTimeout(ctx, backup.MaxDuration)
	defer cancel()
	if err := n.backUpGroups(ctx, b); err != nil {
		return b, err
	}
	if err := b.checkStored(ctx, n.o.Backups); err != nil {
		return b, fmt.Errorf("%w: all nodes need the same repository, such as a directory that they share", err)
	}
	if err := b.store(ctx, n.o.Backups); err != nil {
		return b, fmt.Errorf("store the description of backup %s: %w", b.ID, err)
	}
	n.o.Logger.Info("the cluster was backed up", "backup", b.ID, "took", time.Since(began).Round(time.Millisecond))
	return b, nil
}

// backUpGroups fills b.Groups. The first error ends it.
func (n *Node) backUpGroups(ctx context.Context, b *Backup) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	slots := make(chan struct{}, backupConcurrency)
	for i := range b.Groups {
		work.Go(func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			defer func() { <-slots }()
			g, err := n.backUpGroup(ctx, b.Cluster, kv.GroupID(i))
			if err != nil {
				cancel(fmt.Errorf("back up group %d: %w", i, err))
				return
			}
			b.Groups[i] = g
			n.backups.step()
		})
	}
	work.Wait()
	return context.Cause(ctx)
}

// backUpGroup asks the leader of a group for a backup of it.
func (n *Node) backUpGroup(ctx context.Context, cluster string, group kv.GroupID) (g GroupBackup, err error) {
	patience := time.Now().Add(backupPatience)
	for failures := 0; failures < backupAttempts; {
		if err = n.callLeaderOnce(ctx, group, "backup", backupRequest{cluster, group}, &g); err == nil {
			return g, nil
		}
		if errors.Is(err, errNoRepository) || errors.Is(err, errOtherCluster) {
			break
		}
		if !isElsewhere(err) && !errors.Is(err, kv.ErrNoQuorum) || time.Now().After(patience) {
			failures++
		}
		n.o.Logger.Warn("a backup of a group failed", "group", group, "err", err)
		if n.sleep(ctx, 2*n.callTimeout()) != nil {
			break
		}
	}
	return g, err
}

type backupRequest struct {
	Cluster string     `json:"cluster"`
	Group   kv.GroupID `json:"group"`
}

// onBackup backs up a group that this node leads.
func (n *Node) onBackup(ctx context.Context, r backupRequest) (GroupBackup, error) {
	if r.Cluster != n.clusterName() {
		return GroupBackup{}, errOtherCluster
	}
	if n.o.Backups == nil {
		return GroupBackup{}, errNoRepository
	}
	h, err := n.hostedGroup(r.Group)
	if err != nil {
		return GroupBackup{}, n.notLeader(r.Group)
	}
	if err := h.log.Barrier(ctx); err != nil { // then all that was acknowledged is applied here
		return GroupBackup{}, err
	}
	g := GroupBackup{Group: r.Group, Node: n.o.ID}
	g.First, g.Last = slot.Range(r.Group, n.atlas.chart().Groups)
	err = h.state.Frozen(ctx, func(ctx context.Context, d *db.DB, index, term uint64) error {
		info, err := backup.Open(n.o.Backups).Create(ctx, d, &backup.CreateOptions{Database: databaseOf(r.Group)})
		g.Index, g.Term, g.Backup, g.Bytes, g.Stored = index, term, info.ID, info.Bytes, info.BytesStored
		if info.ID != "" && err != nil { // it is complete
			n.o.Logger.Warn("a backup of a group is stored, but not cleaned up", "group", r.Group, "err", err)
			return nil
		}
		return err
	})
	return g, err
}

// operateBackup backs up the cluster. It returns a line with the ID of the backup, and one for each group, with its
// index, bytes, and bytes that were new to the repository.
func (n *Node) operateBackup(ctx context.Context, _ []string) (any, error) {
	b, err := n.Backup(ctx)
	if err != nil {
		return nil, err
	}
	reply := []any{"backup=" + b.ID}
	for _, g := range b.Groups {
		reply = append(reply, fmt.Sprintf("group=%d index=%d bytes=%d new=%d", g.Group, g.Index, g.Bytes, g.Stored))
	}
	return reply, nil
}
