//go:build unix

package nemesis

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// errForgotten says that nodes went on without an acknowledged write.
var errForgotten = errors.New("an acknowledged write is lost")

// rolledBack puts an old copy in the place of a node's directory, while the third node lacks what this one and the
// first have acknowledged since, and the first is dead.
func rolledBack(c *processes, rnd *rand.Rand) (what string, err error) {
	i := 1 + rnd.IntN(2) // these join again by themselves
	first, old, third := c.Nodes[0], c.Nodes[i], c.Nodes[3-i]
	copied := old.Dir + ".copy"
	old.Kill()
	if err := errors.Join(os.CopyFS(copied, os.DirFS(old.Dir)), old.Start()); err != nil {
		return "", err
	}
	require.NoError(c.t, processtest.Wait("node "+old.ID, old.Well))
	if err := third.Signal(syscall.SIGSTOP); err != nil {
		return "", err
	}
	c.waitWrites()
	kept := fmt.Sprint(rnd.Uint64())
	for group := range processGroups {
		c.onLeader(group, "SET", kept)
	}
	old.Kill()
	first.Kill()
	before := len(old.LogText())
	err = errors.Join(os.RemoveAll(old.Dir), os.Rename(copied, old.Dir), third.Signal(syscall.SIGCONT), old.Start())
	for end := time.Now().Add(10 * heartbeat); time.Now().Before(end) && !strings.Contains(old.LogText()[before:], "was rolled back"); {
		time.Sleep(heartbeat / 10)
	}
	if err = errors.Join(err, first.Start()); err != nil {
		return "", err
	}
	for group := range processGroups {
		if got := c.onLeader(group, "GET"); got != kept {
			err = fmt.Errorf("%w: of group %d", errForgotten, group)
		}
	}
	old.Kill()
	return old.ID, errors.Join(err, os.RemoveAll(old.Dir), old.Start(), c.Settle())
}

// onLeader has the leader of a group execute a command about the group's probe key, until it does.
func (c *processes) onLeader(group int, command string, args ...string) (text string) {
	c.t.Helper()
	request := append([]string{command, probeKey(group, processGroups)}, args...)
	require.Eventually(c.t, func() bool {
		r := tell(c.leader(group), time.Second, request...)
		text = r.text
		return r.err == ""
	}, recovery, 20*time.Millisecond, "group %d: %s", group, command)
	return text
}

func TestADirectoryThatWasRolledBackLosesNoWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("TestProcessesStayLinearizable does this too, without -short")
	}
	t.Parallel()
	_, err := rolledBack(newReplaceable(t, artifacts(t)), rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, err)
}
