package upgradetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/sievedb/sievedb/cluster/internal/slot"
)

// groups is the number of groups of the clusters of this package.
const groups = 4

// tagOf returns a tag whose slot is one of a group.
func tagOf(group int) string {
	for i := 0; ; i++ {
		if tag := fmt.Sprint("t", i); int(slot.GroupOf(slot.Of([]byte(tag)), groups)) == group {
			return tag
		}
	}
}

// load is writers that write until they are stopped: two for each group.
type load struct {
	t      *testing.T
	client *redis.ClusterClient
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]string
	failures     map[string]int        // by their text
	last         [groups]time.Time     // the last acknowledgement
	gap          [groups]time.Duration // the longest time without one
	writes       [groups]int           // acknowledged
}

func startLoad(t *testing.T, addrs []string) *load {
	logging.Disable() // of connections that end
	l := &load{t: t, acknowledged: map[string]string{}, failures: map[string]int{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 10 * time.Second,
		MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond,
	})
	for group := range groups {
		l.last[group] = time.Now()
	}
	for writer := range 2 * groups {
		l.work.Go(func() { l.write(writer) })
	}
	t.Cleanup(func() { l.stop(); _ = l.client.Close() })
	return l
}

// write writes keys of its own. A write that failed is repeated with the same value, so it does not matter whether it
// was done.
func (l *load) write(writer int) {
	group := writer % groups
	tag := tagOf(group)
	for n := 0; ; n++ {
		key, value := fmt.Sprintf("{%s}%d-%d", tag, writer, n), fmt.Sprintf("%d/%d", n, writer)
		for {
			err := l.client.Set(l.ctx, key, value, 0).Err()
			if l.ctx.Err() != nil {
				return
			}
			l.note(group, key, value, err)
			if err == nil {
				time.Sleep(time.Millisecond) // more writes than these find nothing more
				break
			}
			// go-redis keeps its map of the slots for up to 10 s if the leader that it knows does not answer.
			l.client.ReloadState(l.ctx)
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (l *load) note(group int, key, value string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures[err.Error()]++
		return
	}
	l.acknowledged[key] = value
	l.writes[group]++
	l.gap[group] = max(l.gap[group], time.Since(l.last[group]))
	l.last[group] = time.Now()
}

// progress waits until each group has acknowledged some more writes.
func (l *load) progress() {
	l.t.Helper()
	l.mu.Lock()
	before := l.writes
	l.mu.Unlock()
	limit := time.Now().Add(2 * time.Minute)
	for {
		l.mu.Lock()
		behind := 0
		for group := range groups {
			if l.writes[group] < before[group]+20 {
				behind++
			}
		}
		l.mu.Unlock()
		if behind == 0 {
			return
		}
		require.True(l.t, time.Now().Before(limit), "%d groups acknowledge nothing", behind)
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *load) stop() {
	l.cancel()
	l.work.Wait()
}

// verify reads all that was acknowledged.
func (l *load) verify() {
	l.t.Helper()
	lost, limit := 0, time.Now().Add(2*time.Minute)
	for key, want := range l.acknowledged {
		got, err := l.client.Get(context.Background(), key).Result()
		for err != nil && !errors.Is(err, redis.Nil) && time.Now().Before(limit) {
			time.Sleep(5 * time.Millisecond) // on a busy machine, a group can be without a leader for a moment
			got, err = l.client.Get(context.Background(), key).Result()
		}
		if !errors.Is(err, redis.Nil) {
			require.NoError(l.t, err)
		}
		if got != want {
			lost++
		}
	}
	require.Zero(l.t, lost, "acknowledged writes are lost, of %d", len(l.acknowledged))
}
