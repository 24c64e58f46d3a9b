package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/slot"
	"github.com/sievedb/sievedb/db"
	"github.com/sievedb/sievedb/vfs"
)

// filterProbes is how many absent keys FILTERS asks each filter for.
const filterProbes = 4000

// operation is an operator's command. It has a fixed number of arguments.
type operation struct {
	usage string // with the names of its arguments
	run   func(n *Node, ctx context.Context, args []string) (any, error)
}

// operations are those of RAFT.HELP, in its order.
var operations = []operation{
	{"RAFT.OVERVIEW", (*Node).operateOverview},
	{"RAFT.NODES", (*Node).operateNodes},
	{"RAFT.GROUPS", (*Node).operateGroups},
	{"RAFT.STATUS group", (*Node).operateStatus},
	{"RAFT.REMOVE node", (*Node).operateRemove},
	{"RAFT.TRANSFER group node", (*Node).operateTransfer},
	{"RAFT.SNAPSHOT group", (*Node).operateSnapshot},
	{"EXPLAIN key", (*Node).operateExplain},
	{"FILTERS", (*Node).operateFilters},
	{"CHECKPOINT name", (*Node).operateCheckpoint},
	{"RAFT.BACKUP", (*Node).operateBackup},
}

// Operate implements kv.Cluster.
func (n *Node) Operate(ctx context.Context, args [][]byte) (any, error) {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	if len(words) == 0 || strings.EqualFold(words[0], "RAFT.HELP") {
		var lines []any
		for _, o := range operations {
			lines = append(lines, o.usage)
		}
		return lines, nil
	}
	for _, o := range operations {
		usage := strings.Fields(o.usage)
		if !strings.EqualFold(usage[0], words[0]) {
			continue
		}
		if len(words) != len(usage) {
			return nil, fmt.Errorf("wrong number of arguments; use %s", o.usage)
		}
		return o.run(n, ctx, words[1:])
	}
	return nil, errors.New("unknown command; RAFT.HELP lists those that operate the cluster")
}

// operateOverview returns an overview.Overview as JSON.
func (n *Node) operateOverview(ctx context.Context, _ []string) (any, error) {
	return json.Marshal(n.Overview(ctx))
}

// operateNodes returns a line of names with their values for each node.
func (n *Node) operateNodes(ctx context.Context, _ []string) (any, error) {
	rows := []any{}
	for _, m := range n.Overview(ctx).Nodes {
		rows = append(rows, fmt.Sprintf(
			"node=%s state=%s addr=%s zone=%s incarnation=%d silent_ms=%d leads=%d replicas=%d",
			m.ID, m.State, m.Addr, word(m.Zone), m.Incarnation, m.SilentMs, m.Leads, m.Replicas))
	}
	return rows, nil
}

// word quotes a text in which a line of words would break.
func word(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// operateGroups returns a line of names with their values for each group, as this node knows it without asking others.
func (n *Node) operateGroups(context.Context, []string) (any, error) {
	_, ranges := n.Map()
	rows := make([]any, 0, len(ranges))
	for _, r := range ranges {
		var voters []string
		for _, id := range r.Replicas {
			voters = append(voters, string(id))
		}
		rows = append(rows, fmt.Sprintf("group=%d first=%d last=%d leader=%s voters=%s",
			r.Group, r.First, r.Last, r.Leader, strings.Join(voters, ",")))
	}
	return rows, nil
}

// operateStatus returns lines "name:value" about this node's replica of a group.
func (n *Node) operateStatus(_ context.Context, args []string) (any, error) {
	p, err := n.placeNamed(args[0])
	if err != nil {
		return nil, err
	}
	if !p.isHosted() {
		return nil, fmt.Errorf("this node has no replica of group %d", p.id)
	}
	h := p.get()
	if h == nil {
		return []byte(fmt.Sprintf("group:%d\r\nfailed:%s\r\n", p.id, p.failure())), nil
	}
	return []byte(h.describe()), nil
}

func (n *Node) placeNamed(text string) (*place, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err == nil {
		if p := n.place(kv.GroupID(number)); p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("the groups are numbered from 0 to %d", n.atlas.chart().Groups-1)
}

func (n *Node) operateRemove(ctx context.Context, args []string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*n.callTimeout()) // group 0 may have no leader for ever
	defer cancel()
	err := n.callLeader(ctx, 0, "leave", leaveRequest{kv.NodeID(args[0])}, &struct{}{})
	return "OK", err
}

func (n *Node) operateTransfer(ctx context.Context, args []string) (any, error) {
	p, err := n.placeNamed(args[0])
	if err != nil {
		return nil, err
	}
	member, found := n.atlas.chart().Find(kv.NodeID(args[1]))
	if !found {
		return nil, errors.New("the cluster has no such node; RAFT.NODES lists them")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*n.callTimeout())
	defer cancel()
	r := changeRequest{Kind: actTransfer, Group: p.id, Server: member.Server(), Addr: member.Addr}
	return "OK", n.callLeaderOnce(ctx, p.id, "change", r, &struct{}{})
}

func (n *Node) operateSnapshot(ctx context.Context, args []string) (any, error) {
	p, err := n.placeNamed(args[0])
	if err != nil {
		return nil, err
	}
	h, err := n.hostedGroup(p.id)
	if err != nil {
		return nil, err
	}
	return "OK", h.log.Snapshot(ctx)
}

// operateExplain says what a lookup of a key reads on this node.
func (n *Node) operateExplain(_ context.Context, args []string) (any, error) {
	key := []byte(args[0])
	slotNum := slot.Of(key)
	h, err := n.hostedGroup(n.groupOf(slotNum))
	if err != nil {
		return nil, err
	}
	var text string
	err = h.state.WithDB(func(d *db.DB) error {
		explanation, err := d.Explain(layout.AppendKey(nil, slotNum, key))
		if err == nil {
			text = explanation.String()
		}
		return err
	})
	return []byte(text), err
}

// operateFilters returns how well the filters of this node's groups work: a row for each level of each group.
func (n *Node) operateFilters(ctx context.Context, _ []string) (any, error) {
	rows := []any{}
	for _, h := range n.running() {
		err := h.state.WithDB(func(d *db.DB) error {
			report, err := d.Filters(ctx, filterProbes)
			if err != nil {
				return err
			}
			for _, l := range report.Levels {
				rows = append(rows, fmt.Sprintf("group=%d level=%d tables=%d absent=%d passed=%d verdicts=%v",
					h.id, l.Level, l.Tables, l.Probes.Absent, l.Probes.Passed, l.Verdicts))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// operateCheckpoint writes a checkpoint of each group of this node to the directory checkpoints/NAME in the node's
// own. Clients cannot choose another place.
func (n *Node) operateCheckpoint(ctx context.Context, args []string) (any, error) {
	if !kv.NodeID(args[0]).Valid() {
		return nil, errors.New("the name of a checkpoint has 1 to 64 letters, digits, - and _")
	}
	dir := filepath.Join(n.o.Dir, "checkpoints", args[0])
	if n.exists(dir) {
		return nil, errors.New("a checkpoint of this name exists")
	}
	if err := vfs.MkdirAllSynced(n.o.FS, dir); err != nil {
		return nil, err
	}
	for _, h := range n.running() {
		err := h.state.WithDB(func(d *db.DB) error {
			_, err := d.Checkpoint(ctx, groupDir(dir, h.id), nil)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return dir, nil
}
