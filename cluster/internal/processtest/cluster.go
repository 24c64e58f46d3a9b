package processtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sievedb/sievedb/cluster/internal/process"
)

// patience bounds each wait. A busy machine is slow, and a wait that succeeds is short.
const patience = 2 * time.Minute

// Options describe a cluster.
type Options struct {
	// Nodes is the number of nodes. Default: 3.
	Nodes int
	// Groups is the number of groups. Default: 4.
	Groups int
	// Replicas is the number of replicas of each group. Default: 3.
	Replicas int
	// Args are further arguments of each process. Without them, elections begin after half a second, and a new
	// cluster places its replicas in two.
	Args []string
	// Program is an earlier build of sieved. Default: this one.
	Program string
	// Logs is the directory of the logs. Without one, Close removes them.
	Logs string
}

// Node is a node of a cluster.
type Node = process.Node

// Cluster is nodes on this machine.
type Cluster struct {
	Nodes []*Node
	o     Options
	dir   string
}

// Start starts a cluster, and stops it at the end of the test. All replicas and leaders are in place when it returns.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := New(o)
	if c != nil {
		t.Cleanup(func() { c.Close(t.Failed(), t.Log) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// New is Start without a test: the caller calls Close, also after an error if the cluster is not nil.
func New(o Options) (*Cluster, error) {
	o.Nodes = cmp.Or(o.Nodes, 3)
	o.Groups = cmp.Or(o.Groups, 4)
	o.Replicas = cmp.Or(o.Replicas, 3)
	if o.Args == nil {
		// Leaders step down, and the outcome of their writes is unknown, when the machine stalls for half of a
		// heartbeat.
		o.Args = []string{"--heartbeat", "2s", "--gossip", "20ms"}
	}
	dir, err := os.MkdirTemp("", "sieved-cluster-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{o: o, dir: dir}
	for range o.Nodes {
		if _, err := c.Add(); err != nil {
			return c, err
		}
	}
	return c, c.Settle()
}

// Add starts a further node, and waits until it answers.
func (c *Cluster) Add(args ...string) (*Node, error) {
	args = append(slices.Clone(c.o.Args), args...)
	if len(c.Nodes) > 0 {
		args = append(args, "--join", c.Nodes[0].Addr)
	}
	n, err := newNode(c.dir, fmt.Sprint(len(c.Nodes)+1), args...)
	if err != nil {
		return nil, err
	}
	n.Program = cmp.Or(c.o.Program, n.Program)
	if c.o.Logs != "" {
		n.Log = filepath.Join(c.o.Logs, filepath.Base(n.Log))
	}
	if len(c.Nodes) == 0 {
		err := n.Init(context.Background(), "--groups", fmt.Sprint(c.o.Groups), "--replicas", fmt.Sprint(c.o.Replicas))
		if err != nil {
			return nil, err
		}
	}
	c.Nodes = append(c.Nodes, n)
	if err := n.Start(); err != nil {
		return nil, err
	}
	return n, Wait("node "+n.ID+" to answer", func(ctx context.Context) error {
		_, err := n.Groups(ctx)
		return err
	})
}

// Upgrade has a node that is stopped be started as this version of the program.
func Upgrade(n *Node) (err error) {
	n.Program, err = Sieved()
	return err
}

func newNode(dir, id string, args ...string) (*Node, error) {
	program, err := Sieved()
	if err != nil {
		return nil, err
	}
	n, err := process.New(program, dir, id, args...)
	if err != nil {
		return nil, err
	}
	n.HTTP, err = process.FreeAddress()
	return n, err
}

// Continue starts a node on a directory that another process left, and ends it with the test.
func Continue(t testing.TB, dir, id string) *Node {
	t.Helper()
	n, err := newNode(t.TempDir(), id)
	if err == nil {
		n.Dir = dir
		err = n.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.Kill()
		if t.Failed() {
			t.Logf("the last lines of node %s:\n%s", n.ID, n.LastLines(15))
		}
	})
	return n
}

// Close ends all processes and removes their directories. If show is set, it first prints the ends of their logs.
func (c *Cluster) Close(show bool, print func(...any)) {
	for _, n := range c.Nodes {
		n.Kill()
		if show {
			print(fmt.Sprintf("the last lines of node %s:\n%s", n.ID, n.LastLines(15)))
		}
	}
	_ = os.RemoveAll(c.dir)
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// Node returns the node with an ID.
func (c *Cluster) Node(id string) *Node {
	for _, n := range c.Nodes {
		if n.ID == id {
			return n
		}
	}
	panic("processtest: the cluster has no node " + id)
}

// Running returns the nodes whose processes run.
func (c *Cluster) Running() (running []*Node) {
	for _, n := range c.Nodes {
		if n.Running() {
			running = append(running, n)
		}
	}
	return running
}

// Settle waits until all running nodes agree that each group has enough replicas and a leader, and that the leaders
// are spread over the running nodes. If all nodes run, it waits until none reports a problem either.
func (c *Cluster) Settle() error {
	return Wait("replicas and leaders", func(ctx context.Context) error {
		for _, n := range c.Running() {
			groups, err := n.Groups(ctx)
			if err != nil {
				return err
			}
			if err = c.check(groups); err == nil && len(c.Running()) == len(c.Nodes) {
				err = n.Well(ctx)
			}
			if err != nil {
				return fmt.Errorf("node %s: %w", n.ID, err)
			}
		}
		return nil
	})
}

func (c *Cluster) check(groups []process.Group) error {
	want := min(3, len(c.Nodes)) // replicas
	leads := map[string]int{}
	for _, n := range c.Running() {
		leads[n.ID] = 0
	}
	for _, g := range groups {
		if _, runs := leads[g.Leader]; len(g.Replicas) != want || !runs {
			return fmt.Errorf("group %d has %d replicas and the leader %q", g.Number, len(g.Replicas), g.Leader)
		}
		leads[g.Leader]++
	}
	for id, count := range leads {
		if count == 0 && len(groups) >= len(leads) {
			return fmt.Errorf("node %s leads no group yet", id)
		}
	}
	return nil
}

// Group returns the group of a slot, as the first running node that answers knows it. It has a leader that runs.
func (c *Cluster) Group(slot int) (found process.Group, err error) {
	err = Wait("a leader", func(ctx context.Context) error {
		err := errors.New("no node runs")
		for _, n := range c.Running() {
			var groups []process.Group
			if groups, err = n.Groups(ctx); err != nil {
				continue
			}
			for _, g := range groups {
				if slot >= g.First && slot <= g.Last {
					found = g
				}
			}
			if found.Leader == "" || !c.Node(found.Leader).Running() {
				err = fmt.Errorf("node %s knows no leader of group %d", n.ID, found.Number)
				continue
			}
			return nil
		}
		return err
	})
	return found, err
}

// Transfer makes another node the leader of a slot's group, and waits until all nodes know that. It returns the nodes
// that led and lead.
func (c *Cluster) Transfer(slot int) (from, to *Node, err error) {
	err = Wait("the transfer of a leadership", func(ctx context.Context) error {
		g, err := c.Group(slot)
		if err != nil {
			return err
		}
		from, to = c.Node(g.Leader), nil
		for _, id := range g.Replicas {
			if n := c.Node(id); n != from && n.Running() {
				to = n
			}
		}
		if to == nil {
			return errors.New("no other replica runs")
		}
		if _, err := from.Do(ctx, "RAFT.TRANSFER", g.Number, to.ID); err != nil {
			return err
		}
		return Wait("the new leader", func(ctx context.Context) error {
			for _, n := range c.Running() {
				groups, err := n.Groups(ctx)
				if err != nil {
					return err
				}
				if leader := groups[g.Number].Leader; leader != to.ID {
					return fmt.Errorf("node %s says that %q leads group %d", n.ID, leader, g.Number)
				}
			}
			return nil
		})
	})
	return from, to, err
}

// Wait calls f until it returns nil, and gives up after a while. Each call may take ten seconds.
func Wait(what string, f func(ctx context.Context) error) error {
	limit := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := f(ctx)
		cancel()
		if err == nil {
			return nil
		}
		if time.Now().After(limit) {
			return fmt.Errorf("waited %v for %s: %w", patience, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
