package clienttest

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/processtest"
)

// The bug: a follower was paused for longer than --stale-bound. When it continued, it took what lay in its sockets
// for news of the leader, and answered READONLY reads without what was acknowledged during the pause.
func TestAFollowerThatWasPausedAnswersNothingThatIsTooOld(t *testing.T) {
	if testing.Short() {
		t.Skip("a pause takes seconds")
	}
	const bound = time.Second
	c := processtest.Start(t, processtest.Options{
		Groups: 1, Args: []string{"--heartbeat", "500ms", "--gossip", "200ms", "--stale-bound", bound.String()},
	})
	g, err := c.Group(0)
	require.NoError(t, err)
	leader, follower := c.Node(g.Leader), c.Nodes[0]
	if follower == leader {
		follower = c.Nodes[1]
	}
	client := redis.NewClient(&redis.Options{Addr: follower.Addr, ReadTimeout: -1, MaxRetries: -1, PoolSize: 1})
	defer client.Close()
	conn := client.Conn()
	defer conn.Close()
	require.NoError(t, conn.Do(t.Context(), "READONLY").Err())
	for round := range 3 {
		_, err = leader.Do(t.Context(), "SET", "k", round)
		require.NoError(t, err)
		require.NoError(t, processtest.Wait("a stale read", func(ctx context.Context) error {
			got, err := conn.Do(ctx, "GET", "k").Int()
			if err == nil && got != round {
				return errors.New("it has an old value")
			}
			return err
		}))
		require.NoError(t, follower.Signal(syscall.SIGSTOP))
		_, err = leader.Do(t.Context(), "SET", "k", round+100)
		require.NoError(t, err)
		read := make(chan error, 1)
		go func() {
			got, err := conn.Do(t.Context(), "GET", "k").Int()
			if err == nil && got == round {
				err = errors.New("the answer is older than the bound")
			} else {
				err = nil // it refused
			}
			read <- err
		}()
		time.Sleep(3 * bound) // the pause
		require.NoError(t, follower.Signal(syscall.SIGCONT))
		require.NoError(t, <-read)
	}
}
