package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sievedb/sievedb/cluster/internal/process"
)

const writers = 8

// traffic is writers that use a cluster client. Each writes keys of its own, one after another.
type traffic struct {
	client *redis.ClusterClient
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]string
	failed       int // attempts
	last         error
	newest       [writers]time.Time // when the last write of each writer that was acknowledged began
}

func startTraffic(ctx context.Context, addrs []string) *traffic {
	logging.Disable() // of connections that end
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{
		cancel: cancel, acknowledged: map[string]string{},
		client: redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: addrs, MaxRedirects: 3, DialTimeout: 500 * time.Millisecond,
			ReadTimeout: 3 * time.Second, WriteTimeout: time.Second,
			MinRetryBackoff: 5 * time.Millisecond, MaxRetryBackoff: 50 * time.Millisecond,
		}),
	}
	for w := range writers {
		t.group.Go(func() { t.write(ctx, w) })
	}
	return t
}

// tags have one tag for each of the 4 groups, by the highest bits of their slots. TestTagsAreInTheirGroups checks that.
var tags = [4]string{"b", "c", "d", "a"}

// write writes until ctx ends. A write with an error is repeated: the value is the same, so it does not matter
// whether it was done.
func (t *traffic) write(ctx context.Context, w int) {
	for n := 0; ctx.Err() == nil; n++ {
		key, value := fmt.Sprintf("demo:{%s}:%d:%d", tags[w%len(tags)], w, n), fmt.Sprintf("%d-%d", w, n)
		for {
			began := time.Now()
			err := t.client.Set(ctx, key, value, 0).Err()
			if ctx.Err() != nil {
				return
			}
			t.note(w, began, key, value, err)
			if err == nil {
				break
			}
			// go-redis keeps its map of the slots for up to 10 s if the leader that it knows does not answer.
			t.client.ReloadState(ctx)
			_ = pause(ctx, 10*time.Millisecond)
		}
	}
}

func (t *traffic) note(w int, began time.Time, key, value string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.failed++
		t.last = err
		return
	}
	t.acknowledged[key] = value
	t.newest[w] = began
}

func (t *traffic) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.acknowledged)
}

func (t *traffic) lastError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

// waitAllGroups waits until each writer had a write acknowledged that ended after a moment, and returns how long
// after it the last of them did.
func (t *traffic) waitAllGroups(ctx context.Context, since time.Time) (time.Duration, error) {
	err := retry(ctx, "writes to every group", func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for w, began := range t.newest {
			if !began.After(since) {
				return fmt.Errorf("writer %d waits: %w", w, errors.Join(t.last))
			}
		}
		return nil
	})
	return time.Since(since), err
}

// stop ends the writers.
func (t *traffic) stop() {
	t.cancel()
	t.group.Wait()
}

func (t *traffic) close() {
	t.stop()
	_ = t.client.Close()
}

// result returns what was acknowledged, and how many attempts were not.
func (t *traffic) result() (acknowledged map[string]string, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acknowledged, t.failed
}

// verify reads each write that was acknowledged.
func (t *traffic) verify(ctx context.Context, acknowledged map[string]string) error {
	return inBatches(acknowledged, func(keys []string) (lost error) {
		// A group may elect a leader at any time, as on a busy machine. A write that is not there is no such matter.
		err := retry(ctx, "the acknowledged writes to be read", func() error {
			err := verify(ctx, t.client, keys, acknowledged)
			if errors.Is(err, errLost) {
				lost = err
				return nil
			}
			return err
		})
		return errors.Join(lost, err)
	})
}

var errLost = errors.New("acknowledged writes are LOST")

// verify reads keys at once, and returns errLost if some do not have the values that are wanted.
func verify(ctx context.Context, c pipeliner, keys []string, want map[string]string) error {
	values := make([]*redis.StringCmd, len(keys))
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			values[i] = p.Get(ctx, key)
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return compare(keys, values, want)
}

// pipeliner is a client or a connection of one.
type pipeliner interface {
	Pipelined(ctx context.Context, f func(redis.Pipeliner) error) ([]redis.Cmder, error)
}

func compare(keys []string, values []*redis.StringCmd, want map[string]string) error {
	lost := 0
	for i, key := range keys {
		if got, err := values[i].Result(); errors.Is(err, redis.Nil) || err == nil && got != want[key] {
			lost++
		} else if err != nil {
			return err
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d %w", lost, errLost)
	}
	return nil
}

// inBatches calls f with some hundred keys at a time.
func inBatches(all map[string]string, f func(keys []string) error) error {
	var keys []string
	for key := range all {
		if keys = append(keys, key); len(keys) == 500 {
			if err := f(keys); err != nil {
				return err
			}
			keys = keys[:0]
		}
	}
	return f(keys)
}

// waitCopied waits until a node answers reads of all keys from its own replicas.
func waitCopied(ctx context.Context, p *process.Node, want map[string]string) error {
	c := p.Client()
	defer func() { _ = c.Close() }()
	return retry(ctx, "the restarted node to catch up", func() error {
		conn := c.Conn()
		defer func() { _ = conn.Close() }()
		if err := conn.Do(ctx, "READONLY").Err(); err != nil {
			return err
		}
		return inBatches(want, func(keys []string) error { return verify(ctx, conn, keys, want) })
	})
}
