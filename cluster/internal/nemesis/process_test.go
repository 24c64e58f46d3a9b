//go:build unix

package nemesis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/kv"
	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

const processGroups = 4

func TestMain(m *testing.M) { os.Exit(processtest.Run(m)) }

// processes is a cluster of three programs.
type processes struct {
	*processtest.Cluster
	t       *testing.T
	clients *Workload
}

// newProcesses starts three nodes with some flags, and waits until all groups have three replicas that vote.
func newProcesses(t *testing.T, dir string, flags ...string) *processes {
	t.Helper()
	args := append([]string{"--heartbeat", heartbeat.String(), "--gossip", "20ms"}, flags...)
	c := &processes{processtest.Start(t, processtest.Options{Groups: processGroups, Args: args, Logs: dir}), t, nil}
	c.waitVoters("")
	return c
}

// dialer implements victim.
func (c *processes) dialer() dialer { return dialTCP }

// serve implements victim.
func (c *processes) serve(w *Workload) { c.clients = w }

// addrs implements victim.
func (c *processes) addrs() []string { return c.Addrs() }

// leader waits for a node that leads a group.
func (c *processes) leader(group int) *processtest.Node {
	c.t.Helper()
	g, err := c.Group(group * kv.SlotCount / processGroups)
	require.NoError(c.t, err)
	return c.Node(g.Leader)
}

// waitWrites implements victim.
func (c *processes) waitWrites() {
	c.t.Helper()
	for group := range processGroups {
		c.onLeader(group, "SET", "x")
	}
}

func killProcess(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	p.Kill()
	time.Sleep(outage(rnd))
	return p.ID, p.Start()
}

func restartProcess(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	_ = p.Stop()
	return p.ID, p.Start()
}

func killProcesses(c *processes, rnd *rand.Rand) (string, error) {
	for _, i := range rnd.Perm(len(c.Nodes)) {
		c.Nodes[i].Kill()
	}
	for _, i := range rnd.Perm(len(c.Nodes)) {
		if err := c.Nodes[i].Start(); err != nil {
			return "", err
		}
	}
	return "", nil
}

// pauseLeader stops a leader for longer than an election takes. When it continues, it believes for a
// moment that it still leads, and requests wait in its sockets.
func pauseLeader(c *processes, rnd *rand.Rand) (string, error) {
	p := c.leader(rnd.IntN(processGroups))
	for range 2 {
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
		time.Sleep(outage(rnd))
		if err := p.Signal(syscall.SIGCONT); err != nil {
			return "", err
		}
		time.Sleep(heartbeat / 4)
	}
	return p.ID, nil
}

// pauseTwo stops two of three nodes, so that a write may wait in one of them, and kills the third.
func pauseTwo(c *processes, rnd *rand.Rand) (string, error) {
	order := rnd.Perm(len(c.Nodes))
	for _, i := range order[:2] {
		if err := c.Nodes[i].Signal(syscall.SIGSTOP); err != nil {
			return "", err
		}
	}
	time.Sleep(outage(rnd))
	killed := c.Nodes[order[2]]
	killed.Kill()
	for _, i := range order[:2] {
		if err := c.Nodes[i].Signal(syscall.SIGCONT); err != nil {
			return "", err
		}
	}
	time.Sleep(outage(rnd))
	return fmt.Sprintf("%s was killed", killed.ID), killed.Start()
}

var processFaults = []fault[*processes]{
	{"a process is killed", killProcess},
	{"a process is restarted", restartProcess},
	{"all processes are killed", killProcesses},
	{"the leader is paused", pauseLeader},
	{"two processes are paused and the third is killed", pauseTwo},
	{"a process is started without its directory", emptied},
	{"the directory of a process is rolled back", rolledBack},
}

func TestProcessesStayLinearizable(t *testing.T) {
	t.Parallel()
	dir := artifacts(t)
	faults := processFaults
	if testing.Short() {
		faults = faults[:len(faults)-1] // the last one takes longer than all others
	}
	mustPass(t, newProcesses(t, dir), dir, faults)
}
