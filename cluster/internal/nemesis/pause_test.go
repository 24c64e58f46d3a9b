//go:build unix

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// deadAfter is when a silent process is replaced: the shortest time that sieved accepts.
const deadAfter = time.Second

// pausedBound is how old stale answers may be: less than a pause.
const pausedBound = deadAfter

// What a deposed leader of group 0 must not do when it continues.
var (
	errShrunk = errors.New("a group lost a voter that works")
	errLost   = errors.New("a group takes no writes although a majority of its nodes run")
)

// newReplaceable starts three nodes that are replaced soon.
func newReplaceable(t *testing.T, dir string) *processes {
	t.Helper()
	return newProcesses(t, dir, "--dead-after", deadAfter.String(), "--stale-bound", pausedBound.String())
}

// tell sends a request to a node. If there is no reply, the error of the one that it returns says why.
func tell(n *processtest.Node, wait time.Duration, request ...string) reply {
	var cn *conn
	r, err := ask(context.Background(), wait, dialTCP, &cn, n.Addr, nil, request)
	if cn != nil {
		_ = cn.nc.Close()
	}
	if err != nil {
		return reply{err: err.Error()}
	}
	return r
}

// votersOf returns the servers that vote in a group, as a node sees it that leads it; nil if none says so.
func (c *processes) votersOf(group int, asked []*processtest.Node) []string {
	for _, n := range asked {
		text := tell(n, time.Second, "RAFT.STATUS", fmt.Sprint(group)).text
		if !strings.Contains(text, "\nstate:leader\r\n") {
			continue
		}
		var all []string
		for _, line := range strings.Split(text, "\r\n") {
			if id, votes := strings.CutSuffix(strings.TrimPrefix(line, "member:"), " voter=true"); votes {
				all = append(all, id)
			}
		}
		return all
	}
	return nil
}

// without returns the processes that run, but one.
func (c *processes) without(id string) (some []*processtest.Node) {
	for _, n := range c.Running() {
		if n.ID != id {
			some = append(some, n)
		}
	}
	return some
}

// waitVoters waits until each group has three voters, none of them on a node; "": on any.
func (c *processes) waitVoters(without string) {
	c.t.Helper()
	require.NoError(c.t, processtest.Wait("three voters", func(context.Context) error {
		for group := range processGroups {
			all := c.votersOf(group, c.without(without))
			on := func(id string) bool { return strings.HasPrefix(id, without+".") }
			if len(all) != 3 || slices.ContainsFunc(all, on) {
				return fmt.Errorf("group %d has the voters %q", group, all)
			}
		}
		return nil
	}))
}

// watchVoters looks at the voters of all groups until stop is called, which returns errShrunk if one had fewer than
// three.
func (c *processes) watchVoters() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	var err error
	asked := c.Running()
	watching.Go(func() {
		for ctx.Err() == nil {
			for group := range processGroups {
				if all := c.votersOf(group, asked); all != nil && len(all) < 3 {
					err = fmt.Errorf("%w: group %d has the voters %q", errShrunk, group, all)
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	return func() error {
		cancel()
		watching.Wait()
		return err
	}
}

// writesSoon returns errLost unless all groups take writes soon.
func (c *processes) writesSoon() error {
	for group := range processGroups {
		err := errors.New("it has no leader")
		for deadline := time.Now().Add(20 * time.Second); err != nil; time.Sleep(20 * time.Millisecond) {
			for _, n := range c.Running() {
				r := tell(n, 2*time.Second, "SET", probeKey(group, processGroups), "x")
				if err = errors.New(r.err); r.err == "" {
					err = nil
					break
				}
			}
			if err != nil && time.Now().After(deadline) {
				return fmt.Errorf("%w: group %d: %w", errLost, group, err)
			}
		}
	}
	return nil
}

// handBack gives a leadership to a node that was paused, once it is a voter again, and reports whether it got it.
func (c *processes) handBack(group int, id string) bool {
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		leads := c.leader(group)
		if leads.ID == id {
			return true
		}
		tell(leads, time.Second, "RAFT.TRANSFER", fmt.Sprint(group), id)
	}
	return false
}

// pauseReplaced pauses the leader of a group until another node has replaced it, and lets it continue. If there is no
// other node yet, one joins meanwhile, of which the paused one does not know. With kill, another node ends before the
// paused one continues.
func pauseReplaced(c *processes, group int, kill bool) (what string, err error) {
	p := c.leader(group)
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	continued := false
	defer func() {
		if !continued {
			_ = p.Signal(syscall.SIGCONT)
		}
	}()
	if len(c.Nodes) == 3 {
		require.Eventually(c.t, func() bool { return c.votersOf(0, c.without(p.ID)) != nil }, recovery, 20*time.Millisecond,
			"group 0 has no other leader") // a node would wait 5 s for the paused one to let it join
		if _, err := c.Add("--join", c.without(p.ID)[0].Addr); err != nil {
			return "", err
		}
	}
	c.waitVoters(p.ID)
	what = fmt.Sprintf("%s led group %d", p.ID, group)
	var killed *processtest.Node
	if kill {
		killed = c.without(p.ID)[0]
		killed.Kill()
		what += ", " + killed.ID + " was killed"
		time.Sleep(deadAfter / 2)
	}
	stop := c.watchVoters()
	continued = true
	if err := p.Signal(syscall.SIGCONT); err != nil {
		return "", err
	}
	time.Sleep(deadAfter)
	what += fmt.Sprintf(", leads again: %t", c.handBack(group, p.ID))
	err = c.writesSoon()
	if shrunk := stop(); err == nil && !kill {
		err = shrunk // while a node is dead, its voters are replaced
	}
	if killed != nil {
		err = errors.Join(err, killed.Start())
	}
	return what, err
}

// pauseLeaders pauses the leaders of groups, one after the other, until others have replaced each.
func pauseLeaders(t *testing.T, kill bool, groups ...int) error {
	t.Helper()
	dir := artifacts(t)
	c := newReplaceable(t, dir)
	w := &Workload{
		Clients: 8, Think: 20 * time.Millisecond, Dial: c.dialer(),
		Kinds: []kind{registers, counters, conditions, pipelines},
	}
	w.Know(c.addrs())
	w.Start()
	ages := &staleness{bound: pausedBound, key: probeKey(1, processGroups) + "-age", dial: c.dialer(), nodes: c.addrs}
	ages.begin()
	var err error
	for _, group := range groups {
		var what string
		w.Renew()
		what, err = pauseReplaced(c, group, kill)
		t.Log(what)
		if err != nil {
			break
		}
		c.waitVoters("")
		w.Know(c.addrs())
	}
	w.Stop()
	counts := ages.end()
	t.Log(w.History.Counts(), counts)
	if err == nil && counts.TooOld > 0 {
		err = fmt.Errorf("answers are older than %s: %s", pausedBound, counts)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(t.Context(), recovery)
		defer cancel()
		err = errors.Join(w.ReadAll(ctx), w.History.Check(patience, dir))
	}
	return err
}

func TestAPausedLeaderThatWasReplacedDoesNoHarm(t *testing.T) {
	t.Parallel()
	groups := []int{0}
	if !testing.Short() {
		groups = []int{0, 1, 2, 3, 0}
	}
	require.NoError(t, pauseLeaders(t, false, groups...))
}

func TestAPausedLeaderLosesNoGroupWhenAnotherNodeIsDead(t *testing.T) {
	if testing.Short() {
		t.Skip("TestAPausedLeaderThatWasReplacedDoesNoHarm is about the same cause")
	}
	t.Parallel()
	require.NoError(t, pauseLeaders(t, true, 0))
}

// errForked says that a node without its data answered for it.
var errForked = errors.New("a node answers without its data")

// emptied starts a node whose directory is missing, as after a mount that failed, and then again with its directory. In
// between, it must not say that a key is absent which has a value.
func emptied(c *processes, _ *rand.Rand) (what string, err error) {
	p := c.Nodes[0] // the one that created the cluster, so its command names no other node
	c.waitWrites()
	p.Kill()
	away := p.Dir + ".away"
	if err := os.Rename(p.Dir, away); err != nil {
		return "", err
	}
	if err := p.Start(); err != nil {
		return "", err
	}
	for deadline := time.Now().Add(6 * heartbeat); err == nil && time.Now().Before(deadline); {
		time.Sleep(heartbeat / 10)
		for group := range processGroups {
			if r := tell(p, heartbeat, "GET", probeKey(group, processGroups)); r.err == "" {
				err = fmt.Errorf("%w: group %d, absent: %t", errForked, group, r.null)
			}
		}
	}
	p.Kill()
	return p.ID, errors.Join(err, os.RemoveAll(p.Dir), os.Rename(away, p.Dir), p.Start())
}

func TestANodeWithoutItsDirectoryAnswersNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("TestProcessesStayLinearizable does this too")
	}
	t.Parallel()
	_, err := emptied(newReplaceable(t, artifacts(t)), nil)
	require.NoError(t, err)
}
